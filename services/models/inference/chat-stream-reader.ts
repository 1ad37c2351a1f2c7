import { ChatStream, type ChatStreamOptions, type ChatStreamOutcome } from '../bytes/chat-stream.ts';
import type { Measures } from '../domain/price.ts';
import type { CallTools } from './call-tools.ts';
import { eventStreamType } from './event-stream-reader.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';
import { textUsed } from './text-answer.ts';
import type { UsageBound } from './usage-bound.ts';

const failures: Readonly<Record<Exclude<ChatStreamOutcome, 'complete'>, string>> = {
  cut: 'the stream was cut',
  no_finish_reason: 'the stream ended without a finish_reason',
  upstream_error: 'the upstream sent an error in its stream',
};

/** Passes a stream of chat or text completions on (openai-contract.md section 3). */
export class ChatStreamReader implements AnswerReader {
  readonly contentType = eventStreamType;
  readonly passesOn = true;
  readonly #stream: ChatStream;
  readonly #tools: CallTools;
  readonly #bound: UsageBound;
  readonly #countInputTokens: () => Promise<number>;
  readonly #includeUsage: boolean;

  constructor(options: {
    chat: ChatStreamOptions;
    tools: CallTools;
    bound: UsageBound;
    countInputTokens(): Promise<number>;
  }) {
    this.#stream = new ChatStream(options.chat);
    this.#tools = options.tools;
    this.#bound = options.bound;
    this.#countInputTokens = options.countInputTokens;
    this.#includeUsage = options.chat.includeUsage;
  }

  get complete(): boolean {
    return this.#stream.state !== 'open';
  }

  /** Each delta that carried output is a token or more. */
  get outputTokensSoFar(): number {
    return this.#stream.deltas;
  }

  get heldBytes(): number {
    return this.#stream.heldBytes;
  }

  push(chunk: Uint8Array): readonly Uint8Array[] {
    return this.#stream.push(chunk);
  }

  end(cut: boolean): AnswerEnd {
    const { forward, outcome, usage: reported, isUsageFinal, isUsageStale, said, problem } = this.#stream.end(cut);
    const isComplete = outcome === 'complete';
    const usage = this.#bound.believed(reported);
    const atLeast = usage?.outputTokens ?? 0;
    let told = usage;
    if (usage !== null && !isComplete && !isUsageFinal) {
      // Some upstreams report zeros beside words (openai-contract.md section 3): a stream that broke off used what went by.
      told = {
        ...usage,
        inputTokens: usage.inputTokens || null,
        outputTokens: Math.max(atLeast, this.#stream.deltas),
      };
    } else if (usage !== null && isComplete && isUsageStale) {
      told = { ...usage, inputTokens: usage.inputTokens || null, outputTokens: null };
    }
    const isUntold = this.#includeUsage && isComplete && (reported === null || isUsageStale);
    return {
      forward,
      forwardWith: isUntold
        ? (used) => [...forward.slice(0, -1), this.#usageChunk(used), ...forward.slice(-1)]
        : undefined,
      ...textUsed(told, {
        countInputTokens: this.#countInputTokens,
        // A stream that broke off is charged one token per delta: never more than was generated, whatever the upstream's vocabulary, and
        // never less than was delivered. A complete one is counted as the upstream would have reported it.
        countOutputTokens: async () =>
          isComplete ? Math.max(atLeast, await this.#countOutputTokens()) : this.#stream.deltas,
      }),
      failure: outcome === 'complete' ? null : (problem ?? failures[outcome]),
      said,
    };
  }

  async #countOutputTokens(): Promise<number> {
    const tokenizer = await this.#tools.tokenizer();
    const counted = (await tokenizer.count(this.#stream.outputText())) * this.#stream.textScale;
    // The tokens of sound can only be counted as its pieces.
    return Math.round(counted) || this.#stream.deltas;
  }

  #usageChunk({ inputTokens, outputTokens }: Measures): Uint8Array {
    const counts = {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
    };
    return this.#stream.usageChunk(JSON.stringify(counts));
  }
}
