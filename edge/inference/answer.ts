import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { InvokeHead, InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason } from '#shared/errors.ts';
import { countedBytesMin } from '#shared/held-bytes.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../caller.ts';
import { goneSignal } from '../http/client-gone.ts';
import { logFailure, toGatewayError } from '../http/errors.ts';
import { addRateLimitHeaders } from '../openai/rate-limit-headers.ts';
import { retirementHeaders } from '../openai/retirement-headers.ts';
import { drained } from './drain.ts';
import { answerWithJob, type InferenceCall, type InferenceDeps } from './submit-job.ts';

/**
 * Translates one REST call into InferenceService.Invoke and its answer back into HTTP. The status line is held until the
 * upstream has answered, so that a refusal keeps a real status (openai-contract.md section 3).
 */
export async function answerInference(
  deps: InferenceDeps,
  call: InferenceCall & { route: string },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const { route } = call;
  const raw = reply.raw;
  const gone = goneSignal(request.raw.socket);

  let headSent = false;
  let inBackground = false;
  let isChunked = false;
  try {
    const parts = deps.inference.invoke(
      // Written out: `create` walks the fields by reflection.
      {
        $typeName: 'modelgateway.models.v1.InvokeRequest',
        operation: call.operation,
        body: call.body,
        contentType: call.contentType,
        bodyFile: call.bodyFile,
        constraints: request.principal!.constraints,
        endpoint: '',
        jobId: '',
        eventId: '',
        unmeteredReasons: [],
      } satisfies InvokeRequest,
      { signal: gone, contextValues: callerContext(callerOfRequest(request)) },
    );
    for await (const part of parts) {
      if (!headSent) {
        if (part.background) {
          inBackground = true;
          continue;
        }
        headSent = true;
        reply.hijack();
        const headers = responseHeaders(part.head!, reply, deps.publicUrl);
        if (part.end !== undefined) headers['content-length'] = part.body.byteLength;
        // Or nginx holds it back until it has a page of it, speech too.
        else headers['x-accel-buffering'] = 'no';
        raw.writeHead(part.head!.status, headers);
        isChunked = raw.chunkedEncoding;
        // From here on this code does the chunking.
        raw.chunkedEncoding = false;
        if (part.head!.retirement !== undefined) deps.metrics.retiringModel(part.head!.model);
        if (part.end === undefined) deps.metrics.firstToken(route, deps.clock.monotonic() - request.startedMs);
      }
      if (part.end !== undefined) {
        if (isChunked) raw.end(chunk(part.body, true));
        else end(raw, part.body);
        // Its memory is counted until then (services/models/inference/answer-room.ts).
        if (part.body.byteLength > countedBytesMin) await taken(raw);
      } else if (part.body.byteLength > 0 && !(isChunked ? writeChunk(raw, part.body) : raw.write(part.body))) {
        await drained(raw, gone);
      }
    }
    // Not awaited here: a job's answer has no stream that could break.
    if (inBackground) return answerWithJob(deps, call, request, reply);
    deps.metrics.request(route, raw.statusCode, deps.clock.monotonic() - request.startedMs);
  } catch (thrown) {
    const error = toGatewayError(thrown);
    const isGone = gone.aborted || error.reason === ErrorReason.CANCELLED;
    if (!isGone && !headSent) throw error;
    // Only a broken transport or a client that left ends up here: an answer that fails on its way says so itself.
    if (!isGone) logFailure(error, statusOf(error), request);
    deps.metrics.request(route, statusOf(error), deps.clock.monotonic() - request.startedMs);
    raw.destroy();
  }
}

/** Answers up to this many bytes are sent as a string: Node writes a string together with the head, but bytes separately. */
const oneWriteBytesMax = 16 * 1024;

/** Resolves once the client has taken the whole answer, or has gone. */
const taken = (raw: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    if (raw.closed) resolve();
    else raw.once('close', resolve);
  });

function end(raw: ServerResponse, body: Uint8Array): void {
  if (body.byteLength > oneWriteBytesMax) raw.end(body);
  else raw.end(asBuffer(body).toString('latin1'), 'latin1');
}

const lineEnd = '\r\n';
const lastChunk = '0\r\n\r\n';

/** Writes one chunk; a large one without copying it, since a client that reads nothing would make both stay in memory. */
function writeChunk(raw: ServerResponse, body: Uint8Array): boolean {
  if (body.byteLength <= countedBytesMin) return raw.write(chunk(body));
  raw.cork();
  raw.write(body.byteLength.toString(16) + lineEnd, 'latin1');
  raw.write(body);
  const isTaken = raw.write(lineEnd, 'latin1');
  raw.uncork();
  return isTaken;
}

/** Bytes in chunked coding (RFC 9112 section 7.1), in one buffer: Node would write the size, the line ends and the bytes separately. */
function chunk(body: Uint8Array, isLast = false): Buffer {
  const size = body.byteLength === 0 ? '' : body.byteLength.toString(16) + lineEnd;
  const tail = (body.byteLength === 0 ? '' : lineEnd) + (isLast ? lastChunk : '');
  const bytes = Buffer.allocUnsafe(size.length + body.byteLength + tail.length);
  bytes.write(size, 'latin1');
  bytes.set(body, size.length);
  bytes.write(tail, size.length + body.byteLength, 'latin1');
  return bytes;
}

function responseHeaders(head: InvokeHead, reply: FastifyReply, publicUrl: string): OutgoingHttpHeaders {
  // One copy, to which everything is added by name: a spread walks each of its objects at run time.
  const headers = reply.getHeaders() as OutgoingHttpHeaders;
  headers['content-type'] = head.contentType;
  if (head.contentType.startsWith('text/event-stream')) headers['cache-control'] = 'no-cache, no-transform';
  if (head.rateLimit !== undefined) addRateLimitHeaders(headers, head.rateLimit);
  if (head.retirement !== undefined) Object.assign(headers, retirementHeaders(head.model, head.retirement, publicUrl));
  return headers;
}
