/** The limits of one subject: an API key, or the user of a session (service.md, Authentication). */
export type RateLimits = { requestsPerMinute: number; tokensPerMinute: number; concurrentRequests: number };

/** The limits where neither plan, organization nor key sets others (decisions.md, Inference). */
export const defaultRateLimits: RateLimits = {
  requestsPerMinute: 600,
  tokensPerMinute: 200_000,
  concurrentRequests: 100,
};

/** The largest limits that can be set; messages and Usage's arithmetic cannot hold larger ones. */
export const rateLimitsMax: RateLimits = {
  requestsPerMinute: 10_000_000,
  tokensPerMinute: 2_000_000_000,
  concurrentRequests: 1_000_000,
};

/** The longest reset time that is reported, in milliseconds: seven weeks, the most that a message can hold. */
export const resetMsMax = 2 ** 32 - 1;

/**
 * The level of a bucket, as the time in which a limit would let as much through, once `limit` is in force instead of `before`. Of a raised
 * one no more is gone than was used; under a lowered one nobody waits longer for what the old one let through.
 */
export const levelUnder = (limit: number, levelMs: number, before: number): number =>
  limit > before ? (levelMs * before) / limit : levelMs;

/** The limits of an organization or key itself, spelled as in the public API; null where there is none. */
export const ownLimitFields = ({ requestsPerMinute, tokensPerMinute, concurrentRequests }: RateLimits) => ({
  requests_per_minute: requestsPerMinute || null,
  tokens_per_minute: tokensPerMinute || null,
  concurrent_requests: concurrentRequests || null,
});

/** A subject's own limits after a change: each of `changes`, if there are any, or else `limits` as a whole; 0 means unset. */
export function nextLimits(
  own: RateLimits,
  { limits, changes }: { limits: RateLimits | undefined; changes: Partial<RateLimits> | undefined },
): RateLimits {
  const next = (name: keyof RateLimits) =>
    changes === undefined ? (limits?.[name] ?? 0) : (changes[name] ?? own[name]);
  return {
    requestsPerMinute: next('requestsPerMinute'),
    tokensPerMinute: next('tokensPerMinute'),
    concurrentRequests: next('concurrentRequests'),
  };
}

/*
 * Where several replicas serve the same subjects, Usage keeps the buckets, and a replica lets through what it was granted. A little may
 * pass without a grant, so that not every first request waits for one:
 */

/** A hundredth of a minute's requests or tokens, over all replicas (reliability.md, Promises: at most 1% global error). */
export const unaskedPerMinute = (limit: number, replicas: number): number => Math.floor(limit / 100 / replicas);

/** A tenth of the concurrent requests, over all replicas; Usage keeps these free. */
export const unaskedConcurrent = (limit: number, replicas: number): number => Math.floor(limit / 10 / replicas);
