import type { MessageInitShape } from '@bufbuild/protobuf';
import type { QuotaDemand, QuotaShareSchema } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { defaultRateLimits, levelUnder, type RateLimits, unaskedConcurrent } from '#shared/rate-limits.ts';

export const minuteMs = 60_000;

/**
 * A leaky bucket of one minute's worth, over all replicas. Its level is the time, in milliseconds, in which the whole limit would let as
 * much through. `settled` has passed without a grant (negative: is given back); then as much of `wanted` is granted as there is room for.
 * An untouched bucket grants all: a request larger than the whole limit could never pass otherwise.
 */
function grantFrom(
  levelMs: number,
  limitPerMinute: number,
  { settled, wanted }: { settled: number; wanted: number },
): { granted: number; levelMs: number } {
  const unitMs = minuteMs / limitPerMinute;
  const settledMs = Math.max(0, levelMs + settled * unitMs);
  // A little tolerance: sums of floats must not refuse the last request of a full bucket.
  const room = Math.max(0, Math.floor((minuteMs - settledMs) / unitMs + 1e-6));
  const granted = settledMs === 0 ? wanted : Math.min(wanted, room);
  return { granted, levelMs: settledMs + granted * unitMs };
}

/** How many concurrent requests a replica may run. The others keep what they were granted, and what they may run without a grant. */
function grantConcurrent(wanted: number, limit: number, others: readonly number[], replicas: number): number {
  const unasked = unaskedConcurrent(limit, replicas);
  const kept = others.reduce((sum, granted) => sum + Math.max(granted, unasked), 0);
  const silent = Math.max(0, replicas - 1 - others.length);
  return Math.max(0, Math.min(wanted, limit - kept - silent * unasked));
}

type LimitsPerMinute = Pick<RateLimits, 'requestsPerMinute' | 'tokensPerMinute'>;

/** A subject's buckets over all replicas: the levels of grantFrom, and under which limits they were filled, on average. */
export type BucketLevels = LimitsPerMinute & { requestsMs: number; tokensMs: number };

export const emptyBuckets: BucketLevels = { requestsMs: 0, tokensMs: 0, requestsPerMinute: 0, tokensPerMinute: 0 };

/**
 * The levels of the same buckets under the limits now in force. Of a lowered limit they keep by which they were filled: a replica that has
 * not heard of a change yet would otherwise raise it again with each report, and empty the bucket.
 */
export const levelsUnder = (
  { requestsPerMinute, tokensPerMinute }: LimitsPerMinute,
  levels: BucketLevels,
): BucketLevels => ({
  requestsMs: levelUnder(requestsPerMinute, levels.requestsMs, levels.requestsPerMinute),
  tokensMs: levelUnder(tokensPerMinute, levels.tokensMs, levels.tokensPerMinute),
  requestsPerMinute: Math.max(requestsPerMinute, levels.requestsPerMinute),
  tokensPerMinute: Math.max(tokensPerMinute, levels.tokensPerMinute),
});

/** The limit by which a bucket was filled, on average, once `limit` has filled it from `levelMs` to `nextMs`. */
const filledBy = (limit: number, levelMs: number, nextMs: number, before: number): number =>
  nextMs > levelMs ? Math.round((levelMs * before + (nextMs - levelMs) * limit) / nextMs) : before;

/**
 * What a replica is granted of a subject, and the resulting levels of the buckets, grants included. They have leaked up to now; `others` is
 * what each other replica may run of the subject concurrently.
 */
export function grantDemand(
  demand: QuotaDemand,
  before: BucketLevels,
  others: readonly number[],
  replicas: number,
): { share: MessageInitShape<typeof QuotaShareSchema>; levels: BucketLevels; concurrent: number } {
  const limits = effectiveLimits(demand.limits);
  const levels = levelsUnder(limits, before);
  const requests = grantFrom(levels.requestsMs, limits.requestsPerMinute, {
    settled: Number(demand.requestsSettled),
    wanted: demand.requests,
  });
  const tokens = grantFrom(levels.tokensMs, limits.tokensPerMinute, {
    settled: Number(demand.tokensSettled),
    wanted: Number(demand.tokens),
  });
  const concurrent = grantConcurrent(demand.concurrentRequests, limits.concurrentRequests, others, replicas);
  return {
    share: {
      subject: demand.subject,
      requests: requests.granted,
      tokens: BigInt(tokens.granted),
      concurrentRequests: concurrent,
      requestsFill: requests.levelMs / minuteMs,
      tokensFill: tokens.levelMs / minuteMs,
    },
    levels: {
      requestsMs: requests.levelMs,
      tokensMs: tokens.levelMs,
      requestsPerMinute: filledBy(
        limits.requestsPerMinute,
        levels.requestsMs,
        requests.levelMs,
        levels.requestsPerMinute,
      ),
      tokensPerMinute: filledBy(limits.tokensPerMinute, levels.tokensMs, tokens.levelMs, levels.tokensPerMinute),
    },
    concurrent,
  };
}

/** The limits, with the platform's defaults in place of 0, which means "not set". */
export const effectiveLimits = (limits: Partial<RateLimits> | undefined): RateLimits => ({
  requestsPerMinute: limits?.requestsPerMinute || defaultRateLimits.requestsPerMinute,
  tokensPerMinute: limits?.tokensPerMinute || defaultRateLimits.tokensPerMinute,
  concurrentRequests: limits?.concurrentRequests || defaultRateLimits.concurrentRequests,
});
