import { createHash } from 'node:crypto';
import { NIL } from 'uuid';
import { isUuid } from '#shared/ids.ts';

/** An event in the form that is hashed. Its JSON parts are text, so that the very same characters are hashed again years later. */
export type ChainedEvent = {
  tenantId: string;
  sequence: bigint;
  id: string;
  type: string;
  occurredAtMs: number;
  actorType: number;
  actorId: string;
  actorIp: string;
  targetType: string;
  targetId: string;
  beforeJson: string;
  afterJson: string;
  requestId: string;
};

/** The id of a target or an actor as events have it: the names of models and plans stay as they are. */
export const storedId = (id: string): string => (isUuid(id) ? id.toLowerCase() : id);

/** The chain of events that belong to no organization. */
export const platformChain = NIL;

export const emptyHash: Buffer = Buffer.alloc(0);

/**
 * The hash of an event: SHA-256 over the hash before it and a JSON array of its fields in this order. JSON keeps the
 * fields apart, whatever they contain.
 */
export function eventHash(previousHash: Uint8Array, event: ChainedEvent): Buffer {
  const fields = [
    event.tenantId,
    event.sequence.toString(),
    event.id,
    event.type,
    event.occurredAtMs,
    event.actorType,
    event.actorId,
    event.actorIp,
    event.targetType,
    event.targetId,
    event.beforeJson,
    event.afterJson,
    event.requestId,
  ];
  return createHash('sha256').update(previousHash).update(JSON.stringify(fields)).digest();
}

export type StoredEvent = ChainedEvent & { previousHash: Uint8Array; hash: Uint8Array };

/** What the next event of a chain follows: the sequence number and hash of the previous one. */
export type ChainPlace = { sequence: bigint; hash: Uint8Array };

/** Reads a chain event by event, from its beginning or after a trusted event, and remembers where it breaks. */
export class ChainCheck {
  #sequence: bigint;
  #hash: Uint8Array;
  #firstBroken: bigint | undefined;

  constructor(after: ChainPlace = { sequence: 0n, hash: emptyHash }) {
    this.#sequence = after.sequence;
    this.#hash = after.hash;
  }

  /** The first invalid place among the events taken so far. */
  get firstBroken(): bigint | undefined {
    return this.#firstBroken;
  }

  /** Takes the next event, in the order of sequence numbers. */
  add(event: StoredEvent): void {
    const expected = this.#sequence + 1n;
    const holds =
      event.sequence === expected &&
      Buffer.compare(event.previousHash, this.#hash) === 0 &&
      Buffer.compare(event.hash, eventHash(this.#hash, event)) === 0;
    // A gap breaks the chain at the missing place.
    if (!holds) this.#firstBroken ??= event.sequence < expected ? event.sequence : expected;
    this.#sequence = event.sequence;
    this.#hash = event.hash;
  }

  /** Ends the check: the head must name the last event, otherwise events are missing at the end. */
  end(head: ChainPlace | undefined): bigint | undefined {
    const headSequence = head?.sequence ?? 0n;
    const reaches = headSequence === this.#sequence && Buffer.compare(head?.hash ?? emptyHash, this.#hash) === 0;
    if (!reaches) this.#firstBroken ??= headSequence > this.#sequence ? this.#sequence + 1n : this.#sequence;
    return this.#firstBroken;
  }
}
