import type { RateLimitState } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { RateLimits } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../caller.ts';
import type { Principal } from '../../principal.ts';
import type { Routes } from '../routes.ts';

/** Where a principal stands with the limits on this edge. */
export type LocalStanding = {
  state: Pick<RateLimitState, 'remainingRequests' | 'resetRequestsMs' | 'remainingTokens' | 'resetTokensMs'>;
  concurrentRequests: number;
};

/**
 * The caller's limits and what is left of them (service.md, Management endpoints). `standingOf` reads this edge's own counters;
 * without it, what is left is known only where several edges report to Usage.
 */
export const rateLimitRoutes =
  (standingOf?: (principal: Principal) => LocalStanding): Routes =>
  (app, { usage }) => {
    for (const path of ['/api/v1/rate-limits', '/api/v1/profile/rate-limits']) {
      app.get(path, { config: { access: { surface: 'api', scope: 'rate_limits:read' } } }, async (request) => {
        const { requestsPerMinute, tokensPerMinute, concurrentRequests } = request.principal!.constraints;
        const local = standingOf?.(request.principal!);
        const answer = await usage.getRateLimits(
          {
            limits: { requestsPerMinute, tokensPerMinute, concurrentRequests },
            local: local?.state,
            localConcurrentRequests: local?.concurrentRequests ?? 0,
          },
          { contextValues: callerContext(callerOfRequest(request)) },
        );
        const { state } = answer;
        return {
          limits: limitsJson(answer.limits),
          remaining: {
            requests_per_minute: state?.remainingRequests ?? 0,
            tokens_per_minute: state?.remainingTokens ?? 0,
            concurrent_requests: answer.remainingConcurrentRequests,
          },
          reset_seconds: {
            requests_per_minute: (state?.resetRequestsMs ?? 0) / 1000,
            tokens_per_minute: (state?.resetTokensMs ?? 0) / 1000,
          },
        };
      });
    }
  };

const limitsJson = (limits: RateLimits | undefined) => ({
  requests_per_minute: limits?.requestsPerMinute ?? 0,
  tokens_per_minute: limits?.tokensPerMinute ?? 0,
  concurrent_requests: limits?.concurrentRequests ?? 0,
});
