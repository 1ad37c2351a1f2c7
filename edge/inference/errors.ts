import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../caller.ts';
import { sendError, toGatewayError } from '../http/errors.ts';
import type { Upload } from '../http/uploads.ts';
import { retirementHeaders } from '../openai/retirement-headers.ts';
import type { EdgeApp, RouteDeps } from '../routes/routes.ts';

/** Errors of inference routes announce the retirement of the model that the request named, as its answers do (service.md, Retirement headers). */
export function announceRetirementOnErrors(app: EdgeApp, deps: RouteDeps): void {
  app.setErrorHandler(announcingErrors(deps, (request) => modelNamed(request.body)));
}

/** An error handler that announces the retirement of the model which `modelOf` finds in the request. */
export const announcingErrors =
  (deps: RouteDeps, modelOf: (request: FastifyRequest) => string | null) =>
  async (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const error = toGatewayError(thrown);
    reply.headers(await retirementOf(modelOf(request), request, deps));
    return sendError(error, request, reply, deps.clock);
  };

async function retirementOf(
  model: string | null,
  request: FastifyRequest,
  { inference, metrics, publicUrl }: RouteDeps,
): Promise<Record<string, string>> {
  if (model === null || request.principal === null) return {};
  try {
    const { retirement } = await inference.getRetirement(
      { model },
      { contextValues: callerContext(callerOfRequest(request)) },
    );
    if (retirement !== undefined) metrics.retiringModel(model);
    return retirementHeaders(model, retirement, publicUrl);
  } catch (err) {
    // The error itself matters more than its headers.
    request.log.debug({ err, requestId: request.id }, 'the retirement of a model could not be looked up');
    return {};
  }
}

/** The model in a body that was kept as bytes or spooled; null when it cannot be told. */
function modelNamed(body: unknown): string | null {
  if (isUpload(body)) return body.model;
  if (!Buffer.isBuffer(body)) return null;
  try {
    const { model } = JSON.parse(body.toString('utf8')) as { model?: unknown };
    return typeof model === 'string' && model.length <= 255 ? model : null;
  } catch {
    return null;
  }
}

const isUpload = (body: unknown): body is Upload => typeof body === 'object' && body !== null && 'path' in body;
