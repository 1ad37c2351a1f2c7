import { defaultRateLimits, type RateLimits } from '#shared/rate-limits.ts';

/*
 * How replicas share a limit. A tenth of it is spread evenly, so that a replica can serve a subject's first request before it has
 * reported it; the rest goes by demand. Nobody is given more than that while another still holds it, so that the parts exceed
 * the whole by a tenth at most, and only from a replica's first report of a subject until the others' next.
 */

const evenPart = 0.1;

/** The part which a replica may give out of a subject that it has not reported. */
export const unreportedShare = (replicas: number): number => (replicas <= 1 ? 1 : evenPart / replicas);

export type OtherShares = {
  /** What the other replicas that reported the subject want and hold. */
  demand: number;
  share: number;
  count: number;
};

/**
 * The part of a subject's limits for a replica, from 0 to 1. One that reports the subject for the first time gets an even part at most:
 * others may be asked for it in this moment as well.
 */
export function shareOf(demand: number, others: OtherShares, replicas: number, isFirst: boolean): number {
  if (replicas <= 1) return 1;
  const floor = unreportedShare(replicas);
  const total = demand + others.demand;
  const wanted = floor + (1 - evenPart) * (total === 0 ? 1 / replicas : demand / total);
  const due = isFirst ? Math.min(wanted, 1 / replicas) : wanted;
  const heldByOthers = others.share + floor * Math.max(0, replicas - 1 - others.count);
  return Math.max(floor, Math.min(due, 1 - heldByOthers));
}

/** The part of the limits that was asked for per minute: the larger of requests and tokens. */
export function demandOf(asked: { requests: number; tokens: number }, limits: RateLimits, elapsedMs: number): number {
  const minutes = Math.max(elapsedMs, 100) / 60_000;
  return Math.max(asked.requests / minutes / limits.requestsPerMinute, asked.tokens / minutes / limits.tokensPerMinute);
}

/** How full a bucket is that was filled to `fill`, has leaked for `elapsedMs` and then took `taken`; never above its size. */
export const filled = (fill: number, taken: number, size: number, elapsedMs: number): number =>
  Math.min(size, Math.max(0, fill - (size * elapsedMs) / 60_000) + taken);

/** The limits with the platform's defaults in place of 0, which means "not set". */
export const effectiveLimits = (limits: Partial<RateLimits> | undefined): RateLimits => ({
  requestsPerMinute: limits?.requestsPerMinute || defaultRateLimits.requestsPerMinute,
  tokensPerMinute: limits?.tokensPerMinute || defaultRateLimits.tokensPerMinute,
  concurrentRequests: limits?.concurrentRequests || defaultRateLimits.concurrentRequests,
});
