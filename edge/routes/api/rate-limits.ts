import type { RateLimits } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../caller.ts';
import type { Routes } from '../routes.ts';

/** The caller's limits and what is left of them (service.md, Management endpoints): this edge's own count, and what other edges report. */
export const rateLimitRoutes: Routes = (app, { inference, usage }) => {
  for (const path of ['/api/v1/rate-limits', '/api/v1/profile/rate-limits']) {
    app.get(path, { config: { access: { surface: 'api', scope: 'rate_limits:read' } } }, async (request) => {
      const { constraints } = request.principal!;
      const asCaller = { contextValues: callerContext(callerOfRequest(request)) };
      const local = await inference.getRateLimitState({ constraints }, asCaller);
      const answer = await usage.getRateLimits(
        {
          limits: {
            requestsPerMinute: local.state?.limitRequests ?? 0,
            tokensPerMinute: local.state?.limitTokens ?? 0,
            concurrentRequests: local.limitConcurrentRequests,
          },
          local: local.state,
          localConcurrentRequests: local.concurrentRequests,
        },
        asCaller,
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
