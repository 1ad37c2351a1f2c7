import { defaultRateLimits, type RateLimits, unaskedConcurrent } from '#shared/rate-limits.ts';

export const minuteMs = 60_000;

/**
 * A leaky bucket of one minute's worth, over all replicas. Its level is the milliseconds in which the whole limit would let as much
 * through. `settled` has gone through without a grant (negative: is given back), then as much of `wanted` is granted as there is
 * room for. An untouched bucket grants all: a request above the whole limit could never pass otherwise.
 */
export function grantFrom(
  levelMs: number,
  limitPerMinute: number,
  { settled, wanted }: { settled: number; wanted: number },
): { granted: number; levelMs: number } {
  const unitMs = minuteMs / limitPerMinute;
  const settledMs = Math.max(0, levelMs + settled * unitMs);
  // A hair of tolerance: sums of floats must not refuse the last request of a full bucket.
  const room = Math.max(0, Math.floor((minuteMs - settledMs) / unitMs + 1e-6));
  const granted = settledMs === 0 ? wanted : Math.min(wanted, room);
  return { granted, levelMs: settledMs + granted * unitMs };
}

/** How many requests a replica may run at the same time. The others keep what they were granted, and what they may run unasked. */
export function grantConcurrent(wanted: number, limit: number, others: readonly number[], replicas: number): number {
  const unasked = unaskedConcurrent(limit, replicas);
  const kept = others.reduce((sum, granted) => sum + Math.max(granted, unasked), 0);
  const silent = Math.max(0, replicas - 1 - others.length);
  return Math.max(0, Math.min(wanted, limit - kept - silent * unasked));
}

/** The limits with the platform's defaults in place of 0, which means "not set". */
export const effectiveLimits = (limits: Partial<RateLimits> | undefined): RateLimits => ({
  requestsPerMinute: limits?.requestsPerMinute || defaultRateLimits.requestsPerMinute,
  tokensPerMinute: limits?.tokensPerMinute || defaultRateLimits.tokensPerMinute,
  concurrentRequests: limits?.concurrentRequests || defaultRateLimits.concurrentRequests,
});
