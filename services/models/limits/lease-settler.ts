import { durationMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { type Lease, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import { type HeldLease, neededRoom } from './held-lease.ts';

/** How long a lease holds without a settlement. */
export const timeToLiveMs = 30_000;
/** How often slices are settled; that is when Billing takes idle room back. */
export const settleIntervalMs = 500;
/** A slice that no call used for this long is given back. */
const idleMs = 2_000;
/** In milliseconds. An answer waits for the settlement of its central hold, so this may not take long. */
const rpcTimeoutMs = 1_000;
/** As many as can be settled well within that time: an organization's slice takes Billing a transaction of its own, some 2 ms. */
const settlementsMax = 200;

/** Every lease that Billing holds for this process, and what Billing is told about them. */
export class LeaseSettler {
  readonly #billing: Pick<Client<typeof BillingService>, 'settle'>;
  readonly #holderId: string;
  readonly #now: () => number;
  readonly #failures: RepeatedFailures;
  readonly #leases = new Map<string, HeldLease>();
  readonly #queued = new Set<HeldLease>();
  /** The round under way, and the next one, which takes everything queued meanwhile. */
  #telling: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;

  constructor(deps: {
    billing: Pick<Client<typeof BillingService>, 'settle'>;
    holderId: string;
    now: () => number;
    logger: FailureLogger;
  }) {
    this.#billing = deps.billing;
    this.#holderId = deps.holderId;
    this.#now = deps.now;
    this.#failures = new RepeatedFailures('settling budget leases', deps.logger);
  }

  get size(): number {
    return this.#leases.size;
  }

  add(lease: HeldLease): void {
    this.#leases.set(lease.id, lease);
  }

  /**
   * Tells Billing how leases are used; those that are closing are given back. Resolves once Billing was told, or could not be: then it is
   * told again at the next tick. One call at a time, so that Billing never hears an older state after a newer one.
   */
  settle(leases: Iterable<HeldLease>): Promise<void> {
    for (const lease of leases) this.#queued.add(lease);
    this.#next ??= this.#telling.then(() => {
      this.#next = null;
      this.#telling = this.#tellQueued();
      return this.#telling;
    });
    return this.#next;
  }

  /** Settles what has changed, keeps used leases alive and gives idle slices back. Never rejects. */
  tick(): Promise<void> {
    const nowMs = this.#now();
    const due = [...this.#leases.values()].filter((lease) => isDue(lease, nowMs));
    return due.length === 0 ? Promise.resolve() : this.settle(due);
  }

  /** Gives everything back except what running calls need. */
  async close(): Promise<void> {
    for (const lease of this.#leases.values()) lease.closing = true;
    await this.settle(this.#leases.values());
    this.#failures.ended('failed to the end; Billing frees them once they expire');
  }

  /** Not what is queued from now on: while calls end and ticks come, that has no end. */
  async #tellQueued(): Promise<void> {
    // Answers wait for central holds, but only who asks for more waits for slices.
    const due = [...this.#queued].sort((a, b) => Number(b.central) - Number(a.central));
    this.#queued.clear();
    while (due.length > 0) {
      const known = due.splice(0, settlementsMax).filter(({ id }) => this.#leases.has(id));
      if (known.length > 0) due.push(...(await this.#tell(known)));
    }
  }

  /** Resolves to those of which Billing wants to hear again at once. */
  async #tell(leases: readonly HeldLease[]): Promise<HeldLease[]> {
    const askedMs = this.#now();
    const again: HeldLease[] = [];
    const settlements = leases.map((lease) => {
      lease.changed = false;
      return {
        leaseId: lease.id,
        fencingToken: lease.fencingToken,
        usedNanoUsd: lease.usedNanoUsd,
        inFlightNanoUsd: lease.inFlightNanoUsd,
        // A lease that is given back while calls run under it is kept alive for them.
        keep: !lease.closing || lease.callsInFlight > 0,
        roomNanoUsd: neededRoom(lease),
      };
    });
    const request = { holderId: this.#holderId, settlements, timeToLive: { seconds: BigInt(timeToLiveMs / 1000) } };
    try {
      const response = await this.#billing.settle(request, {
        ...asService('inference'),
        timeoutMs: rpcTimeoutMs,
      });
      this.#failures.succeeded();
      for (const [index, settled] of response.leases.entries()) {
        const lease = leases[index]!;
        lease.settledMs = askedMs;
        if (settled.state === LeaseState.HELD) {
          lease.roomNanoUsd = settled.lease!.heldNanoUsd;
          lease.expiresMs = expiresMs(settled.lease!, askedMs);
          // Billing wants some of it back, and gets it once it hears that nothing will be admitted under that part.
          if (neededRoom(lease) < settlements[index]!.roomNanoUsd) again.push(lease);
        } else {
          lease.closing = true;
          this.#leases.delete(lease.id);
        }
      }
    } catch (err) {
      for (const lease of leases) lease.changed = true;
      this.#failures.failed(err, 'failed; trying again');
    }
    return again;
  }
}

/**
 * Until when a lease admits calls: by this machine's monotonic clock alone, counted from before Billing began to count. It is shorter than
 * requested where the budget's period ends.
 */
const expiresMs = ({ timeToLive }: Lease, askedMs: number): number =>
  askedMs + (timeToLive === undefined ? timeToLiveMs : Math.min(timeToLiveMs, durationMs(timeToLive)));

/** A lease that Billing granted to a request sent at `askedMs`; a central one counts the call that it was requested for. */
export function heldLease(lease: Lease, askedMs: number): HeldLease {
  const { id, fencingToken, central, heldNanoUsd } = lease;
  return {
    id,
    fencingToken,
    central,
    roomNanoUsd: heldNanoUsd,
    usedNanoUsd: 0n,
    inFlightNanoUsd: central ? heldNanoUsd : 0n,
    callsInFlight: central ? 1 : 0,
    expiresMs: expiresMs(lease, askedMs),
    settledMs: askedMs,
    changed: false,
    usedMs: askedMs,
    closing: false,
  };
}

function isDue(lease: HeldLease, nowMs: number): boolean {
  if (!lease.central && lease.callsInFlight === 0 && nowMs - lease.usedMs >= idleMs) lease.closing = true;
  const isEnded = lease.closing && lease.callsInFlight === 0;
  // Slices every time: a caller near the limit waits for all of them to be settled.
  return isEnded || !lease.central || lease.changed || nowMs - lease.settledMs >= timeToLiveMs / 3;
}
