import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { asService } from './rpc/caller.ts';

type Lease = { leaseId: string; fencingToken: bigint };

/** Beyond that the earliest are forgotten, and lapse. Billing takes no more at a time. */
const leasesMax = 1_000;
const rpcTimeoutMs = 3_000;

/**
 * Room in budgets, also such as Billing may still grant, of which Billing is told until it hears it that no call will use it: else nobody
 * had that room until it lapses, minutes later. Whoever has one calls `tell` again and again.
 */
export class UnwantedRoom {
  readonly #billing: Pick<Client<typeof BillingService>, 'releaseHold'>;
  readonly #service: string;
  readonly #leases = new Map<string, Lease & { holderId: string }>();
  #isTelling = false;

  constructor(billing: Pick<Client<typeof BillingService>, 'releaseHold'>, service: string) {
    this.#billing = billing;
    this.#service = service;
  }

  add(holderId: string, leases: readonly Lease[]): void {
    for (const { leaseId, fencingToken } of leases) this.#leases.set(leaseId, { holderId, leaseId, fencingToken });
    for (const leaseId of this.#leases.keys()) {
      if (this.#leases.size <= leasesMax) break;
      this.#leases.delete(leaseId);
    }
  }

  /** Rejects with the first failure; what was not heard is told by the next call. Does nothing while another call is telling. */
  async tell(): Promise<void> {
    if (this.#isTelling || this.#leases.size === 0) return;
    this.#isTelling = true;
    const options = { ...asService(this.#service), timeoutMs: rpcTimeoutMs };
    try {
      for (const [holderId, held] of Map.groupBy(this.#leases.values(), (lease) => lease.holderId)) {
        const leases = held.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken }));
        for (const { leaseId } of leases) this.#leases.delete(leaseId);
        await this.#billing.releaseHold({ holderId, leases }, options).catch((error) => {
          // Behind the others: what Billing refuses holds up none of them.
          this.add(holderId, leases);
          throw error;
        });
      }
    } finally {
      this.#isTelling = false;
    }
  }
}
