import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { lapsed } from '../domain/lease.ts';
import type { LeaseRow } from './lease-row.ts';

/**
 * How long the room of a lease is kept beyond the time for which its holder may admit calls under it. One that was cut off, or whose calls
 * outlasted an outage, tells late what was spent there; and whoever had it meanwhile would have spent it once more.
 */
export const lateMs = 300_000;

/** How long a lease that is not held any more is remembered for charges that are still on their way. */
export const rememberedMs = 7 * 86_400_000;

/** A lease whose holder did not settle it in time. */
export const asLapsed = (lease: LeaseRow, nowMs: number): LeaseRow => ({
  ...lapsed(lease),
  state: LeaseState.LAPSED,
  expiresAtMs: nowMs + rememberedMs,
});
