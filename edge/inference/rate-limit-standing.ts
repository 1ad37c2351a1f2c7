import type { FastifyRequest } from 'fastify';
import type { RouteDeps } from '../app.ts';
import { asCaller } from '../caller.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';

/** Headers that say where the caller stands with its limits: a refusal has no head that does. */
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
