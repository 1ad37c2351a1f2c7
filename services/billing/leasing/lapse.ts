import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { lapsed } from '../domain/lease.ts';
import type { LeaseRow } from './lease-row.ts';

/**
 * How long the room of a lease is kept after the time in which its holder may admit calls. A holder that was cut off, or whose calls
 * outlasted an outage, reports late what it spent; if somebody else had got the room meanwhile, it would have been spent twice.
 */
export const lateMs = 300_000;

/** How long a lease that is no longer held is remembered for charges still on their way. */
export const rememberedMs = 7 * 86_400_000;

/** A lease that its holder did not settle in time. */
export const asLapsed = (lease: LeaseRow, nowMs: number): LeaseRow => ({
  ...lapsed(lease),
  state: LeaseState.LAPSED,
  expiresAtMs: nowMs + rememberedMs,
});
