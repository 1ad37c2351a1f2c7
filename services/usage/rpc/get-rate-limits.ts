import type { RateLimitState } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import type { RateLimits } from '#shared/rate-limits.ts';
import { type Caller, CallerKind, callerOf } from '#shared/rpc/caller.ts';
import { type HeldShare, standingOf } from '../db/rate-limit-shares.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { effectiveLimits, filled } from '../domain/rate-limit-share.ts';
import { requirePerson } from '../domain/subject.ts';

export const getRateLimits =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'getRateLimits'> =>
  async (request, context) => {
    const caller = callerOf(context);
    requirePerson(caller);
    const subject = subjectOfLimits(caller);
    const limits = effectiveLimits(request.limits);
    const { replicas, held } = await standingOf(database.pool, subject.id);
    // While no other replica is known, the edge which asks knows best.
    const standing =
      replicas <= 1 ? localStanding(limits, request.local, request.localConcurrentRequests) : sum(limits, held);
    return { subject, limits, ...standing };
  };

/** Limits are counted per key for keys and per user for sessions (service.md, Authentication). */
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

/** The buckets of all replicas together, leaked since each reported. */
function sum(limits: RateLimits, held: readonly HeldShare[]) {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  let [requests, tokens, running] = [0, 0, 0];
  for (const { share, elapsedMs, requestsFill, tokensFill, concurrentRequests: own } of held) {
    requests += filled(requestsFill, 0, requestsPerMinute * share, elapsedMs);
    tokens += filled(tokensFill, 0, tokensPerMinute * share, elapsedMs);
    running += own;
  }
  return {
    state: {
      limitRequests: requestsPerMinute,
      remainingRequests: Math.max(0, Math.floor(requestsPerMinute - requests)),
      resetRequestsMs: Math.ceil((requests / requestsPerMinute) * 60_000),
      limitTokens: tokensPerMinute,
      remainingTokens: Math.max(0, Math.floor(tokensPerMinute - tokens)),
      resetTokensMs: Math.ceil((tokens / tokensPerMinute) * 60_000),
    },
    remainingConcurrentRequests: Math.max(0, concurrentRequests - running),
  };
}
