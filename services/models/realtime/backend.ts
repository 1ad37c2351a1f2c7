import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { Catalog, ServedModel } from '../catalog/catalog.ts';
import { noMeasures, type PriceVersion, priceAt, priceUsage } from '../domain/price.ts';
import { allowedModel } from '../inference/admission.ts';
import { freeHold, type Hold } from '../limits/hold.ts';
import { MeteredItem, type MeteringDeps } from './metered-item.ts';
import type { Outbox } from './outbox.ts';
import type { SessionConfig } from './session-config.ts';

export type SessionDeps = MeteringDeps & { catalog: Catalog };

/**
 * The longest utterance that the gateway cuts; speech that goes on ends there, and a buffer which its client never commits is refused. Budgets
 * hold as much for one that is relayed, which is as long as its upstream allows.
 */
export const utteranceMsMax = 120_000;

/** The shortest. */
export const utteranceMsMin = 100;

/** What an utterance can use at most: ten tokens for a second, heard and written. */
const largestUtterance = {
  ...noMeasures,
  audioMs: utteranceMsMax,
  inputTokens: utteranceMsMax / 100,
  outputTokens: utteranceMsMax / 100,
};

/** What answers a session: an upstream that speaks the same protocol, or the gateway itself with an upstream for files. */
export type Backend = {
  // What takes an event answers a promise when the client should wait before it sends more.
  /** Takes a configuration over, and says so to the client once it is in force. `causeId`: the client's id of the event. */
  configure(config: SessionConfig, causeId: string | null): Promise<void> | void;
  append(audio: Buffer, causeId: string | null): Promise<void> | void;
  commit(causeId: string | null): Promise<void> | void;
  clear(causeId: string | null): Promise<void> | void;
  /** Whether there is audio which waits to be committed, by the client or once its speech has ended. */
  readonly hasUncommitted: boolean;
  /** Resolves once the client has the transcripts of all that was committed, or can get them no more. */
  finish(): Promise<void>;
  /** The session is over, or goes on with another model. What was begun is metered as far as it got. */
  close(): Promise<void>;
};

/** What backends are given by their session. */
export class BackendContext {
  readonly deps: SessionDeps;
  readonly caller: Caller;
  readonly outbox: Outbox;
  /** Aborted when the session is over. */
  readonly signal: AbortSignal;
  /** By all utterances so far. */
  tokensUsed = 0;
  #constraints: CallerConstraints | undefined;
  readonly #modelName: string;
  readonly #admittedAtMs: number;
  readonly #sayUpdated: () => void;
  /** What budgets hold for the next utterance, and at which price. */
  #next: { hold: Hold; price: PriceVersion | null } | null = null;
  /** Set while that is asked for. */
  #preparing: Promise<void> | null = null;
  /** Why there may be none, when that was last asked; null when there may. */
  #refusal: unknown = null;

  constructor(options: {
    deps: SessionDeps;
    caller: Caller;
    constraints: CallerConstraints | undefined;
    /** That of a model which was admitted just now. */
    modelName: string;
    outbox: Outbox;
    signal: AbortSignal;
    sayUpdated(): void;
  }) {
    this.deps = options.deps;
    this.caller = options.caller;
    this.outbox = options.outbox;
    this.signal = options.signal;
    this.#constraints = options.constraints;
    this.#modelName = options.modelName;
    this.#admittedAtMs = options.deps.clock.now();
    this.#sayUpdated = options.sayUpdated;
  }

  /** Tells the client how its session is configured now. */
  sayUpdated(): void {
    this.#sayUpdated();
  }

  /**
   * The session's model as the catalog has it by now. Throws as its admission would when the caller may not use it any more. That it has
   * retired since is no reason: for that a session is refused at its admission only (service.md, Model retirement).
   */
  model(): ServedModel {
    return allowedModel(
      this.deps.catalog,
      this.#modelName,
      Operation.REALTIME_TRANSCRIPTION,
      this.caller.tenantId,
      this.#constraints,
      this.#admittedAtMs,
    );
  }

  /**
   * Makes sure that the next utterance can be served and paid for; called before anything is heard that may begin one. Rejects with the
   * refusal of its model, or of the budget that has no room for it.
   */
  async prepare(): Promise<void> {
    if (this.#next !== null && this.#next.price?.id === this.#price()?.id) return;
    // Near its limit a budget has room for one of them: whoever asks meanwhile gets the same answer.
    await (this.#preparing ?? this.#preparingBy(this.#holdNext()));
  }

  /** Holds the next utterance under other constraints from now on. One that has begun goes on. */
  async constrain(constraints: CallerConstraints): Promise<void> {
    const isSame = this.#constraints?.spendCapNanoUsd === constraints.spendCapNanoUsd;
    this.#constraints = constraints;
    if (isSame) return;
    await this.#prepared();
    // A refusal is told to whoever speaks next.
    if (this.#next !== null) await this.#preparingBy(this.#holdNext()).catch(() => {});
  }

  /** In place of what is held already. */
  async #holdNext(): Promise<void> {
    if (this.#next !== null) await this.#giveBack();
    try {
      const price = this.#price();
      const costMax = price === null ? null : priceUsage(price, largestUtterance);
      this.#next = { hold: await this.deps.budgets.hold(this.caller, this.#constraints, costMax), price };
      this.#refusal = null;
    } catch (refusal) {
      this.#refusal = refusal;
      throw refusal;
    }
  }

  #price(): PriceVersion | null {
    return priceAt(this.model().prices, this.deps.clock.now());
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

  async #giveBack(): Promise<void> {
    const next = this.#next;
    this.#next = null;
    await next?.hold.settle(0n);
  }

  /** Whether the next utterance was refused when that was last asked. */
  get isRefused(): boolean {
    return this.#refusal !== null;
  }

  /** An utterance begins. Throws the refusal of its model, or of the budget that has no room for it. */
  newItem(): MeteredItem {
    if (this.#next === null && this.isRefused) throw this.#refusal;
    const model = this.model();
    const hold = this.#next?.hold ?? freeHold;
    this.#next = null;
    return new MeteredItem(this.deps, this.caller, model, hold, (tokens) => {
      this.tokensUsed += tokens;
    });
  }

  /** Gives back what is held for an utterance that never came. */
  async close(): Promise<void> {
    await this.#prepared();
    await this.#giveBack();
  }
}
