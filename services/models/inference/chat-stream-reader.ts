import { ChatStream, type ChatStreamOptions, type ChatStreamOutcome } from '../bytes/chat-stream.ts';
import type { Measures } from '../domain/price.ts';
import type { CallTools } from './call-tools.ts';
import { eventStreamType } from './event-stream-reader.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';
import { type TextAnswerRules, textUsed } from './text-answer.ts';
import type { UsageBound } from './usage-bound.ts';

const failures: Readonly<Record<Exclude<ChatStreamOutcome, 'complete'>, string>> = {
  cut: 'the stream was cut',
  no_finish_reason: 'the stream ended without a finish_reason',
  upstream_error: 'the upstream sent an error in its stream',
};

/**
 * A stream that broke off is charged one token per delta: no more than was generated, whatever the upstream's vocabulary. Where the gateway
 * counts more than this many for each, the upstream sends many tokens in one delta, and whoever has read them could leave for next to
 * nothing before the usage comes: then its text is charged as counted.
 */
const tokensPerDeltaMax = 4;

/** Passes a stream of chat or text completions on (openai-contract.md section 3). */
export class ChatStreamReader implements AnswerReader {
  readonly contentType = eventStreamType;
  readonly passesOn = true;
  readonly #stream: ChatStream;
  readonly #tools: CallTools;
  readonly #bound: UsageBound;
  readonly #countInputTokens: TextAnswerRules['countInputTokens'];
  readonly #ownText: TextAnswerRules['ownText'];
  readonly #includeUsage: boolean;

  constructor(options: Omit<TextAnswerRules, 'isChat' | 'model'> & { chat: ChatStreamOptions }) {
    this.#stream = new ChatStream(options.chat);
    this.#tools = options.tools;
    this.#bound = options.bound;
    this.#countInputTokens = options.countInputTokens;
    this.#ownText = options.ownText;
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
    if (usage !== null && (isComplete ? isUsageStale : !isUsageFinal)) {
      // Some upstreams report zeros beside words (openai-contract.md section 3): a stream that broke off used what went by.
      told = {
        ...usage,
        inputTokens: usage.inputTokens || null,
        outputTokens: atLeast === 0 || isUsageStale ? null : Math.max(atLeast, this.#stream.deltas),
      };
    }
    const isUntold = this.#includeUsage && isComplete && (reported === null || isUsageStale);
    return {
      forward,
      forwardWith: isUntold
        ? (used) => [...forward.slice(0, -1), this.#usageChunk(used), ...forward.slice(-1)]
        : undefined,
      ...textUsed(told, {
        countInputTokens: this.#countInputTokens,
        // A complete stream is counted as the upstream would have reported it.
        countOutputTokens: async () => {
          const counted = await this.#countOutputTokens();
          const { deltas } = this.#stream;
          const isPacked = counted > deltas * tokensPerDeltaMax;
          return Math.max(atLeast, isComplete || isPacked ? this.#bound.counted(counted, deltas) : deltas);
        },
      }),
      failure: isComplete ? null : (problem ?? failures[outcome]),
      said,
    };
  }

  async #countOutputTokens(): Promise<number> {
    const tokenizer = await this.#tools.tokenizer();
    const text = this.#stream.outputText();
    // The tokens of sound can only be counted as its pieces.
    if (text === '') return this.#stream.deltas;
    const own = this.#ownText(text);
    // The text that was not kept follows what was.
    const scale = 1 + ((this.#stream.textScale - 1) * text.length) / own.length;
    return own === '' ? 0 : Math.round((await tokenizer.count(own)) * scale);
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
