import { type Static, Type } from 'typebox';
import type { RateLimits } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { ownLimitFields, rateLimitsMax } from '#shared/rate-limits.ts';
import { nullable, orNull } from '../../http/nullable.ts';

const limit = (maximum: number) => nullable(Type.Integer({ minimum: 1, maximum }));

/** Rate limits which an operator sets; null leaves one to the plan. Usage shares limits up to these over replicas. */
export const limitsSchema = Type.Object(
  {
    requests_per_minute: limit(rateLimitsMax.requestsPerMinute),
    tokens_per_minute: limit(rateLimitsMax.tokensPerMinute),
    concurrent_requests: limit(rateLimitsMax.concurrentRequests),
  },
  { additionalProperties: false },
);

/** The limits that were given, 0 for null, which takes one away. */
export const givenLimits = (given: Static<typeof limitsSchema>) => ({
  requestsPerMinute: given.requests_per_minute === null ? 0 : given.requests_per_minute,
  tokensPerMinute: given.tokens_per_minute === null ? 0 : given.tokens_per_minute,
  concurrentRequests: given.concurrent_requests === null ? 0 : given.concurrent_requests,
});

/** Rate limits in force, of each key and of each user's sessions; or what is left of them. */
export const rateLimitsSchema = Type.Object(
  {
    requests_per_minute: Type.Integer(),
    tokens_per_minute: Type.Integer({ description: 'Input and output together.' }),
    concurrent_requests: Type.Integer(),
  },
  { $id: 'RateLimits' },
);
export const limitsJson = (
  limits: Pick<RateLimits, 'requestsPerMinute' | 'tokensPerMinute' | 'concurrentRequests'>,
): Static<typeof rateLimitsSchema> => ({
  requests_per_minute: limits.requestsPerMinute,
  tokens_per_minute: limits.tokensPerMinute,
  concurrent_requests: limits.concurrentRequests,
});

/** What `/rate-limits` answers. */
export const rateLimitStateSchema = Type.Object(
  {
    limits: rateLimitsSchema,
    remaining: rateLimitsSchema,
    reset_seconds: Type.Object(
      { requests_per_minute: Type.Number(), tokens_per_minute: Type.Number() },
      { description: 'Until all of a limit is left again.' },
    ),
  },
  { $id: 'RateLimitState' },
);

/** Limits of a plan's, an organization's or a key's own: null leaves one to whoever decides above, and all of them where there is none. */
export const ownRateLimitsSchema = Type.Object(
  {
    requests_per_minute: orNull(Type.Integer()),
    tokens_per_minute: orNull(Type.Integer()),
    concurrent_requests: orNull(Type.Integer()),
  },
  { $id: 'OwnRateLimits' },
);
export function ownLimitsJson(limits: RateLimits | undefined): Static<typeof ownRateLimitsSchema> | null {
  if (limits === undefined) return null;
  const fields = ownLimitFields(limits);
  return Object.values(fields).every((limit) => limit === null) ? null : fields;
}
