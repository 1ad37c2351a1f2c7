import type { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { GatewayError } from '#shared/errors.ts';
import { budgetsByNoRoomReason } from '#shared/no-room.ts';
import type { HeldLease } from './held-lease.ts';

/** What this process knows about one budget: of a key, a user or an organization. */
export type BudgetView = {
  kind: BudgetKind;
  /** Billing said that the budget has no limit; null: it has one, or nobody has asked yet. Times are monotonic milliseconds. */
  unlimited: { saidMs: number; servesUntilMs: number } | null;
  slice: HeldLease | null;
  /** The key's cap under which the slice was leased. */
  limitNanoUsd: bigint | undefined;
  /** Until then the budget counts as near its limit, and each call asks for itself. */
  nearUntilMs: number;
  /**
   * A running question to Billing; calls that need its answer wait for it instead of asking as well. Resolves with its failure when Billing is
   * out of reach.
   */
  asking: Promise<unknown> | null;
  /** How many calls the next slice should cover; grows with demand. */
  sliceCalls: bigint;
  usedMs: number;
};

export const newView = (kind: BudgetKind): BudgetView => ({
  kind,
  unlimited: null,
  slice: null,
  limitNanoUsd: undefined,
  nearUntilMs: Number.NEGATIVE_INFINITY,
  asking: null,
  sliceCalls: sliceCallsMin,
  usedMs: 0,
});

export const sliceCallsMin = 16n;
export const sliceCallsMax = 4_096n;

/** The kind of budget that refused; undefined when the error is something else, such as Billing being out of reach. */
export const refusingKind = (error: unknown): BudgetKind | undefined =>
  error instanceof GatewayError ? budgetsByNoRoomReason.get(error.reason) : undefined;
