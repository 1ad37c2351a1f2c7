import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { limitsJson, rateLimitStateSchema } from './rate-limit-fields.ts';

/** The caller's limits and what is left of them (service.md, Management endpoints), from this edge's own count and other edges' reports. */
export const rateLimitRoutes: Routes = (app, { inference, usage }) => {
  for (const path of ['/api/v1/rate-limits', '/api/v1/profile/rate-limits']) {
    app.get(
      path,
      {
        config: { access: { surface: 'api', scope: 'rate_limits:read' } },
        schema: {
          ...(path === '/api/v1/rate-limits' && { summary: 'Get the rate limits' }),
          description: 'Those of the key, or of the user over all sessions, and what is left of them.',
          response: { 200: rateLimitStateSchema },
        },
      },
      async (request) => {
        const { constraints } = request.principal!;
        const options = asCaller(request);
        const local = await inference.getRateLimitState({ constraints }, options);
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
          options,
        );
        const { state } = answer;
        return {
          limits: limitsJson(answer.limits!),
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
      },
    );
  }
};
