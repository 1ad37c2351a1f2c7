import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { EdgeApp, RouteDeps } from '../app.ts';
import { asCaller } from '../caller.ts';
import { sendError, toGatewayError } from '../http/errors.ts';
import type { Upload } from '../http/uploads.ts';
import { rateReasons } from '../openai/errors.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';
import { retirementHeaders } from '../openai/retirement-headers.ts';

/** Errors of inference routes announce the retirement of the model that the request named, as its answers do (service.md, Retirement headers). */
export function announceRetirementOnErrors(app: EdgeApp, deps: RouteDeps): void {
  // Bodies are kept as bytes, or spooled to a file.
  app.setErrorHandler(announcingErrors(deps, ({ body }) => (isUpload(body) ? body.model : body)));
}

/**
 * An error handler that announces the retirement of the model that a request names, and the rate limits if they are why it was refused.
 * `namedBy` finds the name, or the bytes of the JSON body with it; anything else names no model.
 */
export const announcingErrors =
  (deps: RouteDeps, namedBy: (request: FastifyRequest) => unknown) =>
  async (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const error = toGatewayError(thrown);
    reply.headers(await retirementOf(asNamed(namedBy(request)), request, deps));
    if (rateReasons.has(error.reason) && request.principal !== null) {
      // A refusal has no answer head that would carry them.
      const { constraints } = request.principal;
      const { state } = await deps.inference.getRateLimitState({ constraints }, asCaller(request));
      reply.headers(rateLimitHeaders(state));
    }
    return sendError(error, request, reply);
  };

async function retirementOf(
  named: ReturnType<typeof asNamed>,
  request: FastifyRequest,
  { inference, metrics, publicUrl }: RouteDeps,
): Promise<Record<string, string>> {
  if (named === null || request.principal === null) return {};
  try {
    const { model, retirement } = await inference.getRetirement(named, asCaller(request));
    if (retirement !== undefined) metrics.retiringModel(model);
    return retirementHeaders(model, retirement, publicUrl);
  } catch (err) {
    // The error itself matters more than its extra headers.
    request.log.debug({ err, requestId: request.id }, 'the retirement of a model could not be looked up');
    return {};
  }
}

function asNamed(named: unknown): { model: string } | { body: Uint8Array } | null {
  if (Buffer.isBuffer(named)) return { body: named };
  return typeof named === 'string' && named.length <= 255 ? { model: named } : null;
}

const isUpload = (body: unknown): body is Upload => typeof body === 'object' && body !== null && 'path' in body;
