import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { Catalog, ServedModel } from '../catalog/catalog.ts';
import { type Measures, noMeasures, type PriceVersion, priceNow, priceUsage } from '../domain/price.ts';
import { allowedModel, cannotMeter } from '../inference/admission.ts';
import { transcriptUseMax } from '../inference/usage-bound.ts';
import { freeHold, type Hold } from '../limits/hold.ts';
import type { HeardRoom } from './heard-room.ts';
import { MeteredItem, type MeteringDeps } from './metered-item.ts';
import type { ServerEvents } from './server-events.ts';
import type { SessionConfig } from './session-config.ts';

export type SessionDeps = MeteringDeps & { catalog: Catalog; heardRoom: HeardRoom };

/**
 * The longest utterance that the gateway cuts: longer speech is cut there, and a buffer that its client never commits is refused. Budgets
 * hold as much for a relayed utterance, which is as long as its upstream allows.
 */
export const utteranceMsMax = 120_000;

/** The shortest utterance. */
export const utteranceMsMin = 100;

/** The most that an utterance can use. */
const largestUtterance = (promptBytes: number): Measures => ({
  ...noMeasures,
  ...transcriptUseMax(utteranceMsMax, promptBytes),
});

/** What answers a session: an upstream that speaks the same protocol, or the gateway itself with an upstream that transcribes files. */
export type Backend = {
  // Methods that take an event return a promise when the client should wait before it sends more.
  /**
   * Takes a configuration over, and says so to the client once it is in force. `causeId`: the client's id of the event. False when an
   * upstream refused it, of which the client was told: the one before stays.
   */
  configure(config: SessionConfig, causeId: string | null): Promise<boolean> | boolean;
  append(audio: Buffer, causeId: string | null): Promise<void> | void;
  commit(causeId: string | null): Promise<void> | void;
  clear(causeId: string | null): Promise<void> | void;
  /** Whether there is audio still to be committed, by the client or at the end of its speech. */
  readonly hasUncommitted: boolean;
  /** Resolves once the client has the transcripts of everything committed, or can no longer get them. */
  finish(): Promise<void>;
  /** The session is over, or goes on with another model. Whatever was begun is metered as far as it got. */
  close(): Promise<void>;
};

/** What a session gives its backend. */
export class BackendContext {
  readonly deps: SessionDeps;
  readonly caller: Caller;
  readonly events: ServerEvents;
  /** Aborted when the session is over. */
  readonly signal: AbortSignal;
  /** Tells the client its session's current configuration. */
  readonly sayUpdated: () => void;
  /** The number of tokens used by all utterances so far. */
  tokensUsed = 0;
  #constraints: CallerConstraints | undefined;
  readonly #modelName: string;
  readonly #admittedAtMs: number;
  /** What budgets hold for the next utterance, and at which price. */
  #next: { hold: Hold; price: PriceVersion | null; promptBytes: number } | null = null;
  /** The size of the longest prompt that the next utterance may have. */
  #promptBytes = 0;
  /** Set while that hold is being requested. */
  #preparing: Promise<void> | null = null;
  /** Why the last request for a hold was refused; null when it was granted. */
  #refusal: unknown = null;

  constructor(options: {
    deps: SessionDeps;
    caller: Caller;
    constraints: CallerConstraints | undefined;
    /** The name of a model that was just admitted. */
    modelName: string;
    events: ServerEvents;
    signal: AbortSignal;
    sayUpdated(): void;
  }) {
    this.deps = options.deps;
    this.caller = options.caller;
    this.events = options.events;
    this.signal = options.signal;
    this.sayUpdated = options.sayUpdated;
    this.#constraints = options.constraints;
    this.#modelName = options.modelName;
    this.#admittedAtMs = options.deps.clock.now();
  }

  /**
   * The session's model as the catalog has it now. Throws as its admission would when the caller may no longer use it. Retirement is no
   * reason to throw: it refuses sessions only at their admission (service.md, Model retirement).
   */
  model(): ServedModel {
    const asked = {
      name: this.#modelName,
      operation: Operation.REALTIME_TRANSCRIPTION,
      tenantId: this.caller.tenantId,
      constraints: this.#constraints,
    };
    return allowedModel(this.deps.catalog, asked, this.#admittedAtMs);
  }

  /**
   * Makes sure that the next utterance can be served and paid for; called before hearing anything that may begin one. Rejects with the
   * refusal of its model, of the budget that has no room for it, or because it could not be metered.
   */
  async prepare(): Promise<void> {
    if (!this.deps.journal.healthy) throw cannotMeter();
    const isHeld = this.#next !== null && this.#next.promptBytes >= this.#promptBytes;
    if (isHeld && this.#next?.price?.id === this.#price()?.id) return;
    // Near its limit a budget has room for one of them: everybody who asks meanwhile gets the same answer.
    await (this.#preparing ?? this.#preparingBy(this.#holdNext()));
  }

  /** The next utterances may have a prompt of this size, or still an earlier one. */
  expectPrompt(promptBytes: number): void {
    this.#promptBytes = Math.max(this.#promptBytes, promptBytes);
  }

  /** The next utterances have a prompt of this size: the gateway sends it with each. */
  setPrompt(promptBytes: number): void {
    this.#promptBytes = promptBytes;
  }

  /** From now on holds the next utterance under other constraints. One that has begun goes on. */
  async constrain(constraints: CallerConstraints): Promise<void> {
    const isSame = this.#constraints?.spendCapNanoUsd === constraints.spendCapNanoUsd;
    this.#constraints = constraints;
    if (isSame) return;
    await this.#prepared();
    // If this is refused, whoever speaks next is told.
    if (this.#next !== null) await this.#preparingBy(this.#holdNext()).catch(() => {});
  }

  /** Replaces the current hold, if any. */
  async #holdNext(): Promise<void> {
    if (this.#next !== null) await this.#giveBack();
    try {
      const price = this.#price();
      const promptBytes = this.#promptBytes;
      const costMax = price === null ? null : priceUsage(price, largestUtterance(promptBytes));
      this.#next = { hold: await this.deps.budgets.hold(this.caller, this.#constraints, costMax), price, promptBytes };
      this.#refusal = null;
    } catch (refusal) {
      this.#refusal = refusal;
      throw refusal;
    }
  }

  #price(): PriceVersion | null {
    return priceNow(this.model().prices, this.deps.clock.now());
  }

  #preparingBy(work: Promise<void>): Promise<void> {
    this.#preparing = work.finally(() => {
      this.#preparing = null;
    });
    return this.#preparing;
  }

  /** Resolves once no hold is being requested, whatever the result. */
  async #prepared(): Promise<void> {
    await this.#preparing?.catch(() => {});
  }

  async #giveBack(): Promise<void> {
    const next = this.#next;
    this.#next = null;
    await next?.hold.settle(0n);
  }

  /** Whether the last request for a hold for the next utterance was refused. */
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

  /** Gives back the hold for an utterance that never came. */
  async close(): Promise<void> {
    await this.#prepared();
    await this.#giveBack();
  }
}
