/** Limits of one subject: an API key, or the user of a session (service.md, Authentication). */
export type RateLimits = { requestsPerMinute: number; tokensPerMinute: number; concurrentRequests: number };

/** What holds where neither plan, organization nor key says otherwise (decisions.md, Inference). */
export const defaultRateLimits: RateLimits = {
  requestsPerMinute: 600,
  tokensPerMinute: 200_000,
  concurrentRequests: 100,
};

/** The largest limits that can be set; messages and Usage's reckoning hold no larger ones. */
export const rateLimitsMax: RateLimits = {
  requestsPerMinute: 10_000_000,
  tokensPerMinute: 2_000_000_000,
  concurrentRequests: 1_000_000,
};

/** The longest time until a limit is whole again that is told, in milliseconds: seven weeks, which is what messages hold. */
export const resetMsMax = 2 ** 32 - 1;

/** Limits of an organization's or a key's own in the public API's spelling; null where there is none. */
export const ownLimitFields = ({ requestsPerMinute, tokensPerMinute, concurrentRequests }: RateLimits) => ({
  requests_per_minute: requestsPerMinute || null,
  tokens_per_minute: tokensPerMinute || null,
  concurrent_requests: concurrentRequests || null,
});

/** What a subject's own limits become: `changes`, where there are any, one by one, or else the whole of `limits`; 0 for one that is unset. */
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
 * Where several replicas serve the same subjects, Usage keeps the buckets, and a replica lets through what it was granted. So
 * that not every first request waits for a grant, a little may go unasked:
 */

/** Of a minute's requests or tokens a hundredth over all replicas (reliability.md, Promises: at most 1% global error). */
export const unaskedPerMinute = (limit: number, replicas: number): number => Math.floor(limit / 100 / replicas);

/** Of the requests at the same time a tenth over all replicas, which Usage keeps free for them. */
export const unaskedConcurrent = (limit: number, replicas: number): number => Math.floor(limit / 10 / replicas);
