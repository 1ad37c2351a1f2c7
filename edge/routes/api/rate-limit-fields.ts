import { type Static, Type } from 'typebox';
import type { RateLimits } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { ownLimitFields, rateLimitsMax } from '#shared/rate-limits.ts';
import { onlyFields } from '../../http/bodies.ts';
import { nullable, orNull } from '../../http/nullable.ts';

const limit = (maximum: number) => nullable(Type.Integer({ minimum: 1, maximum }));

/** Rate limits that an operator sets; null leaves one to the plan. These are the largest limits that Usage can share among replicas. */
export const limitsSchema = onlyFields({
  requests_per_minute: limit(rateLimitsMax.requestsPerMinute),
  tokens_per_minute: limit(rateLimitsMax.tokensPerMinute),
  concurrent_requests: limit(rateLimitsMax.concurrentRequests),
});

/** The given limits, with 0 for null, which removes one. */
export const givenLimits = (given: Static<typeof limitsSchema>) => ({
  requestsPerMinute: given.requests_per_minute === null ? 0 : given.requests_per_minute,
  tokensPerMinute: given.tokens_per_minute === null ? 0 : given.tokens_per_minute,
  concurrentRequests: given.concurrent_requests === null ? 0 : given.concurrent_requests,
});

/** The rate limits in force for each key and for each user's sessions; or what is left of them. */
export const rateLimitsSchema = Type.Object(
  {
    requests_per_minute: Type.Integer(),
    tokens_per_minute: Type.Integer({ description: 'Input and output tokens together.' }),
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
      { description: 'How long until the whole limit is available again.' },
    ),
  },
  { $id: 'RateLimitState' },
);

/**
 * The limits that a plan, an organization or a key sets itself: null leaves one to the level above, and null as a whole leaves all of them.
 */
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
