import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { GatewayError } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { transcriptTokensMax } from '../audio/audio-duration.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { type Measures, noMeasures, priceNow } from '../domain/price.ts';
import type { CallTools } from '../inference/call-tools.ts';
import { canTranscriptUse } from '../inference/usage-bound.ts';
import type { Budgets } from '../limits/budgets.ts';
import type { Hold } from '../limits/hold.ts';
import {
  type CallOutcome,
  failureOf,
  logDisbelieved,
  MeteredCall,
  type MeteringJournal,
} from '../metering/metered-call.ts';
import { SaidText } from '../metering/said-text.ts';

export type MeteringDeps = {
  journal: MeteringJournal;
  clock: Clock;
  budgets: Pick<Budgets, 'hold'>;
  logger: Pick<Logger, 'warn'>;
  tools: Pick<CallTools, 'tokenizer'>;
};

/** A transcript, with the size of the prompt that its upstream had. `reported`: what that counted; null: nothing. */
type Completed = { text: string; reported: Partial<Measures> | null; audioMs: number; promptBytes: number };

/** One utterance on its way through the journal. It is metered separately, since a session may last an hour. */
export class MeteredItem {
  readonly call: MeteredCall;
  readonly #logger: Pick<Logger, 'warn'>;
  readonly #tools: Pick<CallTools, 'tokenizer'>;
  readonly #onEnd: (tokens: number) => void;
  /** What was sent. */
  readonly #said = new SaidText();
  #disbelieved: Partial<Measures> | null = null;

  /** `hold` is what budgets hold for it; `onEnd` is told how many tokens were used. */
  constructor(deps: MeteringDeps, caller: Caller, model: ServedModel, hold: Hold, onEnd: (tokens: number) => void) {
    this.#logger = deps.logger;
    this.#tools = deps.tools;
    this.#onEnd = onEnd;
    this.call = new MeteredCall(deps, {
      caller,
      model: model.name,
      operation: Operation.REALTIME_TRANSCRIPTION,
      streamed: true,
      price: priceNow(model.prices, deps.clock.now()),
      hold,
      job: null,
    });
  }

  /** Whether a piece of the transcript was sent. */
  get hasWords(): boolean {
    return this.#said.pieces > 0;
  }

  /** A piece of the transcript is about to be sent: resolves once the journal knows of it. */
  delta(text: string): Promise<void> {
    this.#said.delta(text);
    return this.#progress();
  }

  /** The same of a segment. */
  segment(text: string): Promise<void> {
    this.#said.segment(text);
    return this.#progress();
  }

  async #progress(): Promise<void> {
    this.call.firstByte();
    await this.call.progress(this.#said.pieces);
  }

  /** The upstream reported something impossible, which is not charged; the log shows it beside what is. */
  disbelieve(reported: Partial<Measures>): void {
    this.#disbelieved = { ...this.#disbelieved, ...reported };
  }

  /** The transcript is complete. Returns false when it cannot have used what was reported, so that the gateway counted by itself. */
  async complete({ text, reported, audioMs, promptBytes }: Completed): Promise<boolean> {
    this.call.firstByte();
    const isBelieved = reported === null || canTranscriptUse(reported, audioMs, promptBytes);
    if (!isBelieved) this.disbelieve(reported);
    const used = isBelieved && reported !== null ? reported : { outputTokens: await this.#tokensIn(text, audioMs) };
    await this.#end({ success: true, status: 200, errorCode: '' }, { ...used, audioMs: used.audioMs ?? audioMs });
    return isBelieved;
  }

  /** It failed, or nobody waits for it any more: what was delivered is charged. Does nothing after its end. */
  async fail(error: GatewayError, audioMs: number): Promise<void> {
    if (this.call.ended) return;
    const used = this.hasWords ? { outputTokens: await this.#tokensDelivered(audioMs), audioMs } : {};
    await this.#end(failureOf(error), used);
  }

  /** What was delivered, should that be all that can be told. Never rejects. */
  async #tokensDelivered(audioMs: number): Promise<number> {
    for (;;) {
      const { pieces } = this.#said;
      const tokens = await this.#tokensIn('', audioMs).catch(() => Math.min(pieces, transcriptTokensMax(audioMs)));
      // Others may be on their way to the client.
      if (pieces === this.#said.pieces) return tokens;
    }
  }

  /** The tokens of what was said, but no more than can be said in that time. `text` is the whole transcript, if it is complete. */
  async #tokensIn(text: string, audioMs: number): Promise<number> {
    return Math.min(await this.#said.tokens(await this.#tools.tokenizer(), text), transcriptTokensMax(audioMs));
  }

  async #end(outcome: Omit<CallOutcome, 'used'>, used: Partial<Measures>): Promise<void> {
    const measures = { ...noMeasures, ...used };
    this.#onEnd(measures.inputTokens + measures.outputTokens);
    await this.call.end({ ...outcome, used: measures });
    if (this.#disbelieved === null) return;
    const report = { deployment: this.call.event.deploymentId, reported: this.#disbelieved };
    logDisbelieved(this.#logger, this.call, report);
  }
}
