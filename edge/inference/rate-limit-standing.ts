import type { FastifyRequest } from 'fastify';
import type { RouteDeps } from '../app.ts';
import { asCaller } from '../caller.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';

/** The headers of the caller's current rate limits, for refusals: they have no answer head that would carry them. */
export async function rateLimitStanding(
  { inference }: Pick<RouteDeps, 'inference'>,
  request: FastifyRequest,
): Promise<Record<string, string>> {
  const { state } = await inference.getRateLimitState(
    { constraints: request.principal!.constraints },
    asCaller(request),
  );
  return rateLimitHeaders(state);
}
