import type { OutgoingHttpHeaders } from 'node:http';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type InferenceService,
  type InvokeHead,
  type InvokeRequest,
  InvokeRequestSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason } from '#shared/errors.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../caller.ts';
import { logFailure, toGatewayError } from '../http/errors.ts';
import type { EdgeMetrics } from '../http/metrics.ts';
import { rateReasons, statusOf } from '../openai/errors.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';
import { retirementHeaders } from '../openai/retirement-headers.ts';
import { drained } from './drain.ts';

export type AnswerDeps = {
  inference: Client<typeof InferenceService>;
  clock: Clock;
  metrics: EdgeMetrics;
  publicUrl: string;
};

/**
 * Translates one REST call into InferenceService.Invoke and its answer back into HTTP. The status line is held until the
 * upstream has answered, so that a refusal keeps a real status (openai-contract.md section 3).
 */
export async function answerInference(
  deps: AnswerDeps,
  operation: Operation,
  body: Pick<InvokeRequest, 'body' | 'contentType' | 'bodyFile'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const startedMs = deps.clock.monotonic();
  const route = request.routeOptions.url!;
  const raw = reply.raw;
  const gone = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort();
  });

  let headSent = false;
  try {
    const parts = deps.inference.invoke(
      create(InvokeRequestSchema, {
        operation,
        ...body,
        constraints: request.principal!.constraints,
        endpoint: endpointOf(route),
      }),
      { signal: gone.signal, contextValues: callerContext(callerOfRequest(request)) },
    );
    for await (const part of parts) {
      if (!headSent) {
        headSent = true;
        reply.hijack();
        const headers = responseHeaders(part.head!, request, reply, deps.publicUrl);
        if (part.end !== undefined) headers['content-length'] = part.body.byteLength;
        raw.writeHead(part.head!.status, headers);
        if (part.head!.retirement !== undefined) deps.metrics.retiringModel(part.head!.model);
        if (part.end === undefined) deps.metrics.firstToken(route, deps.clock.monotonic() - startedMs);
      }
      if (part.end !== undefined) {
        raw.end(part.body);
      } else if (part.body.byteLength > 0 && !raw.write(part.body)) {
        await drained(raw, gone.signal);
      }
    }
    deps.metrics.request(route, raw.statusCode, deps.clock.monotonic() - startedMs);
  } catch (thrown) {
    const error = toGatewayError(thrown);
    deps.metrics.request(route, statusOf(error), deps.clock.monotonic() - startedMs);
    if (gone.signal.aborted || error.reason === ErrorReason.CANCELLED) {
      raw.destroy();
    } else if (headSent) {
      // Only a broken transport ends here: an answer that fails on its way says so itself.
      logFailure(error, statusOf(error), request);
      raw.destroy();
    } else {
      if (rateReasons.has(error.reason)) reply.headers(await rateLimitStanding(deps, request));
      throw error;
    }
  }
}

/** Where the caller stands with its limits: a refusal has no head that says so. */
async function rateLimitStanding({ inference }: AnswerDeps, request: FastifyRequest): Promise<Record<string, string>> {
  const { state } = await inference.getRateLimitState(
    { constraints: request.principal!.constraints },
    { contextValues: callerContext(callerOfRequest(request)) },
  );
  return rateLimitHeaders(state);
}

/** Under both prefixes an endpoint is metered by one name, that of /v1 (service.md, Endpoints: the same handlers). */
const endpointOf = (route: string): string => (route.startsWith('/api/') ? route.slice(4) : route);

const streamHeaders = { 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' };

function responseHeaders(
  head: InvokeHead,
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
): OutgoingHttpHeaders {
  return {
    ...(reply.getHeaders() as OutgoingHttpHeaders),
    'content-type': head.contentType,
    'x-request-id': request.id,
    ...(head.contentType.startsWith('text/event-stream') ? streamHeaders : undefined),
    ...rateLimitHeaders(head.rateLimit),
    ...(head.retirement === undefined ? undefined : retirementHeaders(head.model, head.retirement, publicUrl)),
  };
}
