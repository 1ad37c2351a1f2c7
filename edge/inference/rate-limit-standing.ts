import type { Client } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import type { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { asCaller } from '../caller.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';

/** Headers that say where the caller stands with its limits: a refusal has no head that does. */
export async function rateLimitStanding(
  { inference }: { inference: Client<typeof InferenceService> },
  request: FastifyRequest,
): Promise<Record<string, string>> {
  const { state } = await inference.getRateLimitState(
    { constraints: request.principal!.constraints },
    asCaller(request),
  );
  return rateLimitHeaders(state);
}
