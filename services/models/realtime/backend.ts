import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { noMeasures, priceAt, priceUsage } from '../domain/price.ts';
import { freeHold, type Hold } from '../limits/hold.ts';
import { MeteredItem, type MeteringDeps } from './metered-item.ts';
import type { Outbox } from './outbox.ts';
import type { SessionConfig } from './session-config.ts';

/** The longest utterance; speech that goes on is cut there, and a buffer which its client never commits is refused. */
export const utteranceMsMax = 120_000;

/** What an utterance can use at most: ten tokens for a second, heard and written. */
const largestUtterance = {
  ...noMeasures,
  audioMs: utteranceMsMax,
  inputTokens: utteranceMsMax / 100,
  outputTokens: utteranceMsMax / 100,
};

/** What answers a session: an upstream that speaks the same protocol, or the gateway itself with an upstream for files. */
export type Backend = {
  /** Takes a configuration over, and says so to the client once it is in force. `causeId`: the client's id of the event. */
  configure(config: SessionConfig, causeId: string | null): void;
  /** Takes audio. A promise when the client should wait before it sends more. */
  append(audio: Buffer, causeId: string | null): Promise<void> | void;
  commit(causeId: string | null): void;
  clear(causeId: string | null): void;
  /** Whether there is audio which waits to be committed, by the client or once its speech has ended. */
  readonly hasUncommitted: boolean;
  /** Resolves once the client has the transcripts of all that was committed, or can get them no more. */
  finish(): Promise<void>;
  /** The session is over, or goes on with another model. What was begun is metered as far as it got. */
  close(): Promise<void>;
};

/** What backends are given by their session. */
export class BackendContext {
  readonly deps: MeteringDeps;
  readonly caller: Caller;
  readonly model: ServedModel;
  readonly outbox: Outbox;
  /** Aborted when the session is over. */
  readonly signal: AbortSignal;
  /** By all utterances so far. */
  tokensUsed = 0;
  #constraints: CallerConstraints | undefined;
  readonly #sayUpdated: () => void;
  /** What budgets hold for the next utterance. */
  #nextHold: Hold | null = null;
  /** Set while that is asked for. */
  #preparing: Promise<void> | null = null;
  /** Why budgets had no room for it when they were last asked; null when they had. */
  #refusal: unknown = null;

  constructor(options: {
    deps: MeteringDeps;
    caller: Caller;
    constraints: CallerConstraints | undefined;
    model: ServedModel;
    outbox: Outbox;
    signal: AbortSignal;
    sayUpdated(): void;
  }) {
    this.deps = options.deps;
    this.caller = options.caller;
    this.model = options.model;
    this.outbox = options.outbox;
    this.signal = options.signal;
    this.#constraints = options.constraints;
    this.#sayUpdated = options.sayUpdated;
  }

  /** Tells the client how its session is configured now. */
  sayUpdated(): void {
    this.#sayUpdated();
  }

  /**
   * Makes sure that the next utterance can be paid for; called before anything is heard that may begin one. Rejects with the
   * refusal of the budget that has no room for it.
   */
  prepare(): Promise<void> {
    if (this.#nextHold !== null) return Promise.resolve();
    // Near its limit a budget has room for one of them: whoever asks meanwhile gets the same answer.
    return this.#preparing ?? this.#preparingBy(this.#holdNext());
  }

  /** Holds the next utterance under other constraints from now on. One that has begun goes on. */
  async constrain(constraints: CallerConstraints): Promise<void> {
    const isSame = this.#constraints?.spendCapNanoUsd === constraints.spendCapNanoUsd;
    this.#constraints = constraints;
    if (isSame) return;
    await this.#prepared();
    const hold = this.#nextHold;
    if (hold === null) return;
    this.#nextHold = null;
    const holdAnew = async (): Promise<void> => {
      await hold.settle(0n);
      await this.#holdNext();
    };
    // A refusal is told to whoever speaks next.
    await this.#preparingBy(holdAnew()).catch(() => {});
  }

  async #holdNext(): Promise<void> {
    const price = priceAt(this.model.prices, this.deps.clock.now());
    const costMax = price === null ? null : priceUsage(price, largestUtterance);
    try {
      this.#nextHold = await this.deps.budgets.hold(this.caller, this.#constraints, costMax);
      this.#refusal = null;
    } catch (refusal) {
      this.#refusal = refusal;
      throw refusal;
    }
  }

  #preparingBy(work: Promise<void>): Promise<void> {
    this.#preparing = work.finally(() => {
      this.#preparing = null;
    });
    return this.#preparing;
  }

  /** Resolves once nobody holds anything just now, whatever came of it. */
  async #prepared(): Promise<void> {
    await this.#preparing?.catch(() => {});
  }

  /** Whether the next utterance could not be paid for when that was last asked. */
  get isRefused(): boolean {
    return this.#refusal !== null;
  }

  /** An utterance begins. Throws the refusal of the budget that has no room for it. */
  newItem(): MeteredItem {
    if (this.#nextHold === null && this.isRefused) throw this.#refusal;
    const hold = this.#nextHold ?? freeHold;
    this.#nextHold = null;
    return new MeteredItem(this.deps, this.caller, this.model, hold, (tokens) => {
      this.tokensUsed += tokens;
    });
  }

  /** Gives back what is held for an utterance that never came. */
  async close(): Promise<void> {
    await this.#prepared();
    const hold = this.#nextHold;
    this.#nextHold = null;
    await hold?.settle(0n);
  }
}
