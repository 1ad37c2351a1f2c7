/** Limits of one subject: an API key, or the user of a session (service.md, Authentication). */
export type RateLimits = { requestsPerMinute: number; tokensPerMinute: number; concurrentRequests: number };

/** What holds where neither plan, organization nor key says otherwise (decisions.md, Inference). */
export const defaultRateLimits: RateLimits = {
  requestsPerMinute: 600,
  tokensPerMinute: 200_000,
  concurrentRequests: 100,
};
