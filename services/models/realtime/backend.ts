import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { MeteredItem, type MeteringDeps } from './metered-item.ts';
import type { Outbox } from './outbox.ts';
import type { SessionConfig } from './session-config.ts';

/** What answers a session: an upstream that speaks the same protocol, or the gateway itself with an upstream for files. */
export type Backend = {
  /** Takes a configuration over, and says so to the client once it is in force. `causeId`: the client's id of the event. */
  configure(config: SessionConfig, causeId: string | null): void;
  /** Takes audio in base64. A promise when the client should wait before it sends more. */
  append(audio: string, causeId: string | null): Promise<void> | void;
  commit(causeId: string | null): void;
  clear(causeId: string | null): void;
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
  readonly #sayUpdated: () => void;

  constructor(options: {
    deps: MeteringDeps;
    caller: Caller;
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
    this.#sayUpdated = options.sayUpdated;
  }

  /** Tells the client how its session is configured now. */
  sayUpdated(): void {
    this.#sayUpdated();
  }

  /** An utterance begins. */
  newItem(): MeteredItem {
    return new MeteredItem(this.deps, this.caller, this.model, (tokens) => {
      this.tokensUsed += tokens;
    });
  }
}
