import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { lapsed } from '../domain/lease.ts';
import type { LeaseRow } from './lease-row.ts';

/** How long a lease that is not held any more is remembered for charges that are still on their way. */
export const rememberedMs = 7 * 86_400_000;

/** A lease whose holder did not settle it in time. */
export const asLapsed = (lease: LeaseRow, nowMs: number): LeaseRow => ({
  ...lapsed(lease),
  state: LeaseState.LAPSED,
  expiresAtMs: nowMs + rememberedMs,
});
