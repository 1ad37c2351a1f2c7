import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type LeaseRequestSchema,
  LeaseResponseSchema,
  type ReleaseHoldRequestSchema,
  ReleaseHoldResponseSchema,
  type SettleRequestSchema,
  SettleResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { type BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { cancelled } from '#shared/errors.ts';
import {
  type BudgetState,
  charged,
  closed,
  freeRoomToKeep,
  grantedRoom,
  heldBy,
  type LeaseAmounts,
  lapsed,
  remainingIn,
} from '../../../services/billing/domain/lease.ts';
import { lateMs } from '../../../services/billing/leasing/lapse.ts';
import { budgetRefusal } from '../../../services/billing/leasing/refusal.ts';
import { timeToLiveMs } from '../../../services/models/limits/lease-settler.ts';
import type { VirtualTime } from './schedule.ts';

type SimulatedLease = LeaseAmounts & {
  id: string;
  kind: BudgetKind;
  holderId: string;
  central: boolean;
  state: LeaseState;
  settledAtMs: number;
  expiresAtMs: number;
};

/**
 * Billing's side of the protocol, using its own domain functions, with Maps instead of tables and in virtual time: one user with one key.
 * What a transaction does happens in one step here.
 */
export class SimulatedBilling {
  readonly budgets: Map<BudgetKind, BudgetState>;
  readonly leases = new Map<string, SimulatedLease>();
  /** Leases that were given up before they were granted. */
  readonly #forbidden = new Set<string>();
  readonly #chargedEvents = new Set<string>();
  readonly #time: VirtualTime;
  readonly #onRefusal: (kind: BudgetKind) => void;

  constructor(limits: ReadonlyMap<BudgetKind, bigint>, time: VirtualTime, onRefusal: (kind: BudgetKind) => void) {
    this.budgets = new Map(
      [...limits].map(([kind, limitNanoUsd]) => [kind, { limitNanoUsd, postedNanoUsd: 0n, heldNanoUsd: 0n }]),
    );
    this.#time = time;
    this.#onRefusal = onRefusal;
  }

  async lease(request: MessageInitShape<typeof LeaseRequestSchema>) {
    const sinceMs = this.#time.now();
    let taken = this.#take(request);
    if ('refused' in taken && this.#isRecallable(taken.refused)) {
      const kind = taken.refused;
      for (let waitedMs = 0; waitedMs < 1_500 && this.#oldestSettlementMs(kind) <= sinceMs; waitedMs += 50) {
        await this.#time.sleep(50);
      }
      taken = this.#take(request);
    }
    if ('refused' in taken) {
      this.#onRefusal(taken.refused);
      const limits = { paygEnabled: true, paygCapNanoUsd: 0n, userLimitNanoUsd: null };
      const terms = { ...limits, monthlyCreditNanoUsd: 0n, creditMonth: null, includedNanoUsd: null };
      throw budgetRefusal(taken.refused, { terms, nowMs: this.#time.now() }, false);
    }
    return create(LeaseResponseSchema, taken.response);
  }

  async settle({ holderId, settlements }: MessageInitShape<typeof SettleRequestSchema>) {
    const leases = settlements!.map((told) => {
      const lease = this.leases.get(told.leaseId!);
      if (lease === undefined || lease.holderId !== holderId)
        return { leaseId: told.leaseId, state: LeaseState.LAPSED };
      this.#lapseOverdue(lease.kind);
      const used = told.usedNanoUsd!;
      const inFlight = told.inFlightNanoUsd!;
      const wantedNanoUsd = told.keep
        ? this.#keep(lease, { usedNanoUsd: used, inFlightNanoUsd: inFlight, roomNanoUsd: told.roomNanoUsd! })
        : null;
      if (!told.keep) this.#close(lease, used, inFlight);
      const { state, roomNanoUsd, central, kind, id } = this.leases.get(told.leaseId!)!;
      const held = { id, kind, central, heldNanoUsd: wantedNanoUsd ?? roomNanoUsd, fencingToken: 1n };
      return { leaseId: id, state, lease: state === LeaseState.HELD ? held : undefined };
    });
    return create(SettleResponseSchema, { leases });
  }

  async releaseHold({ holderId, leases }: MessageInitShape<typeof ReleaseHoldRequestSchema>) {
    for (const { leaseId } of leases!) {
      const lease = this.leases.get(leaseId!);
      if (lease === undefined) this.#forbidden.add(leaseId!);
      if (lease?.holderId === holderId && lease?.state === LeaseState.HELD) this.#close(lease, 0n, 0n);
    }
    return create(ReleaseHoldResponseSchema, {});
  }

  /** Charges an event once, in every budget. */
  charge(eventId: string, leaseIds: readonly string[], costNanoUsd: bigint): void {
    if (this.#chargedEvents.has(eventId)) return;
    this.#chargedEvents.add(eventId);
    for (const budget of this.budgets.values()) budget.postedNanoUsd += costNanoUsd;
    for (const id of leaseIds) {
      const lease = this.leases.get(id);
      if (lease === undefined) continue;
      const state = lease.central && lease.state === LeaseState.HELD ? LeaseState.CLOSED : lease.state;
      this.#change({ ...charged(lease, costNanoUsd), state });
    }
  }

  /** Lets every overdue lease lapse. */
  tidy(): void {
    for (const kind of this.budgets.keys()) this.#lapseOverdue(kind);
  }

  #take(
    request: MessageInitShape<typeof LeaseRequestSchema>,
  ): { refused: BudgetKind } | { response: MessageInitShape<typeof LeaseResponseSchema> } {
    const granted: SimulatedLease[] = [];
    const demands = request.demands!;
    const isGivenUp = (id: string) => this.#forbidden.has(id) || this.leases.get(id)?.state === LeaseState.CLOSED;
    if (demands.some(({ leaseId }) => isGivenUp(leaseId!))) throw cancelled();
    for (const demand of demands) {
      const budget = this.budgets.get(demand.kind!);
      if (budget === undefined) continue;
      this.#lapseOverdue(demand.kind!);
      const earlier = this.leases.get(demand.leaseId!);
      if (earlier?.state === LeaseState.HELD) {
        granted.push(earlier);
        continue;
      }
      const room = grantedRoom(this.budgets.get(demand.kind!)!, {
        costMaxNanoUsd: request.costMaxNanoUsd!,
        costMinNanoUsd: request.costMinNanoUsd!,
        sliceNanoUsd: demand.sliceNanoUsd!,
      });
      if (room === null) return { refused: demand.kind! };
      granted.push({
        ...room,
        id: demand.leaseId!,
        kind: demand.kind!,
        holderId: request.holderId!,
        usedNanoUsd: 0n,
        inFlightNanoUsd: room.central ? room.roomNanoUsd : request.costMaxNanoUsd!,
        chargedNanoUsd: 0n,
        state: LeaseState.HELD,
        settledAtMs: this.#time.now(),
        expiresAtMs: this.#time.now() + timeToLiveMs + lateMs,
      });
    }
    for (const lease of granted) this.#change(lease);
    const leases = demands.map((demand) => {
      const lease = granted.find(({ id }) => id === demand.leaseId);
      if (lease === undefined) return { id: demand.leaseId, kind: demand.kind, unlimited: true };
      const { id, kind, central, roomNanoUsd } = lease;
      return { id, kind, central, heldNanoUsd: roomNanoUsd, fencingToken: 1n };
    });
    return { response: { leases, costAllowedNanoUsd: request.costMaxNanoUsd } };
  }

  /** Returns the room that the holder should have, if that is less than it says it needs. */
  #keep(
    lease: SimulatedLease,
    told: Pick<LeaseAmounts, 'usedNanoUsd' | 'inFlightNanoUsd' | 'roomNanoUsd'>,
  ): bigint | null {
    if (lease.state !== LeaseState.HELD) return null;
    const nowMs = this.#time.now();
    const kept = { ...lease, ...told, expiresAtMs: nowMs + timeToLiveMs + lateMs };
    if (kept.roomNanoUsd > lease.roomNanoUsd) kept.roomNanoUsd = lease.roomNanoUsd;
    this.#change(kept);
    const free = kept.roomNanoUsd - kept.usedNanoUsd - kept.inFlightNanoUsd;
    const keep = lease.central || free <= 0n ? free : freeRoomToKeep(this.budgets.get(lease.kind)!, free);
    if (keep < free) return kept.roomNanoUsd - free + keep;
    this.#change({ ...kept, settledAtMs: nowMs });
    return null;
  }

  #close(lease: SimulatedLease, usedNanoUsd: bigint, inFlightNanoUsd: bigint): void {
    if (lease.state === LeaseState.LAPSED) return;
    const after = closed(lease, usedNanoUsd, inFlightNanoUsd);
    if (lease.state === LeaseState.CLOSED && after.roomNanoUsd >= lease.roomNanoUsd) return;
    this.#change({ ...after, state: LeaseState.CLOSED });
  }

  #lapseOverdue(kind: BudgetKind): void {
    for (const lease of this.leases.values()) {
      if (lease.kind !== kind || lease.state !== LeaseState.HELD || lease.expiresAtMs > this.#time.now()) continue;
      this.#change({ ...lapsed(lease), state: LeaseState.LAPSED });
    }
  }

  /** Slices that may have something to give. */
  #slices(kind: BudgetKind): SimulatedLease[] {
    return [...this.leases.values()].filter(
      (lease) =>
        lease.kind === kind &&
        !lease.central &&
        lease.state === LeaseState.HELD &&
        lease.expiresAtMs > this.#time.now() + lateMs &&
        lease.roomNanoUsd > lease.usedNanoUsd,
    );
  }

  #isRecallable(kind: BudgetKind): boolean {
    const room = this.#slices(kind).reduce((sum, lease) => sum + lease.roomNanoUsd - lease.usedNanoUsd, 0n);
    return room > 0n && remainingIn(this.budgets.get(kind)!) + room > 0n;
  }

  #oldestSettlementMs(kind: BudgetKind): number {
    return Math.min(...this.#slices(kind).map(({ settledAtMs }) => settledAtMs));
  }

  #change(after: SimulatedLease): void {
    const before = this.leases.get(after.id);
    const budget = this.budgets.get(after.kind)!;
    budget.heldNanoUsd += heldBy(after) - (before === undefined ? 0n : heldBy(before));
    this.leases.set(after.id, after);
  }
}
