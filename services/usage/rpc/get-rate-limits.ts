import type { RateLimitState } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { type RateLimits, resetMsMax } from '#shared/rate-limits.ts';
import { type Caller, CallerKind, callerOf } from '#shared/rpc/caller.ts';
import { standingOf } from '../db/rate-limit-buckets.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { effectiveLimits, levelsUnder, minuteMs } from '../domain/rate-limit-bucket.ts';
import { requirePerson } from '../domain/subject.ts';

export const getRateLimits =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'getRateLimits'> =>
  async (request, context) => {
    const caller = callerOf(context);
    requirePerson(caller);
    const subject = subjectOfLimits(caller);
    const limits = effectiveLimits(request.limits);
    const everywhere = await standingOf(database.pool, subject.id);
    // While no other replica is known, the edge that asks knows best.
    const standing =
      everywhere.replicas <= 1
        ? localStanding(limits, request.local, request.localConcurrentRequests)
        : sharedStanding(limits, everywhere);
    return { subject, limits, ...standing };
  };

/** Limits are counted per key for keys, and per user for sessions (service.md, Authentication). */
const subjectOfLimits = ({ kind, apiKeyId, userId }: Caller) =>
  kind === CallerKind.API_KEY
    ? { kind: RateLimitSubjectKind.API_KEY, id: apiKeyId }
    : { kind: RateLimitSubjectKind.USER, id: userId };

function localStanding(limits: RateLimits, local: RateLimitState | undefined, concurrentRequests: number) {
  return {
    state: {
      limitRequests: limits.requestsPerMinute,
      remainingRequests: Math.min(limits.requestsPerMinute, local?.remainingRequests ?? limits.requestsPerMinute),
      resetRequestsMs: local?.resetRequestsMs ?? 0,
      limitTokens: limits.tokensPerMinute,
      remainingTokens: Math.min(limits.tokensPerMinute, local?.remainingTokens ?? limits.tokensPerMinute),
      resetTokensMs: local?.resetTokensMs ?? 0,
    },
    remainingConcurrentRequests: Math.max(0, limits.concurrentRequests - concurrentRequests),
  };
}

/** What replicas were granted counts as used until they give it back, a second after their last request. */
function sharedStanding(limits: RateLimits, everywhere: Awaited<ReturnType<typeof standingOf>>) {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  const { requestsMs, tokensMs } = levelsUnder(limits, everywhere);
  const remaining = (limit: number, levelMs: number) => Math.max(0, Math.floor(limit - (limit * levelMs) / minuteMs));
  return {
    state: {
      limitRequests: requestsPerMinute,
      remainingRequests: remaining(requestsPerMinute, requestsMs),
      resetRequestsMs: Math.min(Math.ceil(requestsMs), resetMsMax),
      limitTokens: tokensPerMinute,
      remainingTokens: remaining(tokensPerMinute, tokensMs),
      resetTokensMs: Math.min(Math.ceil(tokensMs), resetMsMax),
    },
    remainingConcurrentRequests: Math.max(0, concurrentRequests - everywhere.concurrent),
  };
}
