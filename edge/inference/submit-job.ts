import { readFile, stat } from 'node:fs/promises';
import { create } from '@bufbuild/protobuf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Job } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  type AdmitJobResponse,
  type InvokeRequest,
  InvokeRequestSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { cancelled, ErrorReason, hasReason } from '#shared/errors.ts';
import { countedBytes } from '#shared/held-bytes.ts';
import { isObject } from '#shared/is-object.ts';
import { isStorableText } from '#shared/safe-text.ts';
import type { RouteDeps } from '../app.ts';
import { asCaller, asCallerWithJob } from '../caller.ts';
import { overloaded } from '../guards/load-shedder.ts';
import { goneSignal } from '../http/client-gone.ts';
import { idempotencyKey } from '../http/idempotency-key.ts';
import { rateLimitHeaders } from '../openai/rate-limit-headers.ts';
import { retirementHeaders } from '../openai/retirement-headers.ts';
import { resultBytesMax, sendJob } from './send-job.ts';

/** What answering a call needs, now or later. */
export type InferenceDeps = Pick<
  RouteDeps,
  'inference' | 'jobs' | 'clock' | 'metrics' | 'publicUrl' | 'resultRoom' | 'bodyRoom'
>;

/** The body of a call: its bytes, or the file they were spooled to. */
export type InvokeBody = Pick<InvokeRequest, 'body' | 'contentType' | 'bodyFile'>;

/** How often clients should poll, in seconds (openai-contract.md section 6). */
const lookAgainSeconds = '2';

/** Whether the client prefers an answer later (RFC 7240 section 4.1); means the same as `background: true`. */
export const prefersJob = ({ headers }: FastifyRequest): boolean =>
  headers.prefer !== undefined && /(^|,)\s*respond-async\s*($|[,;])/i.test(String(headers.prefer));

/** A call that runs now or later. */
export type InferenceCall = { operation: Operation } & InvokeBody;

/** Queues a call and answers with its job. */
export async function answerWithJob(
  deps: InferenceDeps,
  call: InferenceCall,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // An upload is removed when its client leaves, at any point in between.
  const gone = call.bodyFile === '' ? undefined : goneSignal(request.raw.socket);
  let giveBack = (): void => {};
  try {
    if (call.bodyFile !== '') giveBack = await roomForFile(deps, call.bodyFile, request.principal!.userId);
    return await submitJob(deps, call, { request, reply, gone });
  } catch (thrown) {
    throw gone?.aborted ? cancelled(thrown as Error) : thrown;
  } finally {
    giveBack();
  }
}

/** Takes the room of a body for an upload, which Jobs gets as bytes; returns a function that gives it back. @throws GatewayError OVERLOADED */
async function roomForFile(
  { bodyRoom, metrics }: InferenceDeps,
  bodyFile: string,
  userId: string,
): Promise<() => void> {
  const bytes = countedBytes((await stat(bodyFile)).size);
  if (bytes === 0) return () => {};
  if (!bodyRoom.take(userId, bytes)) {
    metrics.shed('memory');
    throw overloaded;
  }
  return () => bodyRoom.giveBack(userId, bytes);
}

type Submission = { request: FastifyRequest; reply: FastifyReply; gone: AbortSignal | undefined };

/** Queues a call after all checks of a call that runs now, and answers with its job. */
async function submitJob(deps: InferenceDeps, call: InferenceCall, submission: Submission): Promise<FastifyReply> {
  const { request, reply } = submission;
  const key = idempotencyKey(request);
  let admitted: AdmitJobResponse;
  try {
    admitted = await admit(deps, call, submission);
  } catch (refusal) {
    const earlier = await submittedBefore(deps, call, { request, key, refusal });
    if (earlier === undefined) throw refusal;
    return answer(deps, earlier, submission);
  }
  if (admitted.retirement !== undefined) deps.metrics.retiringModel(admitted.model);
  reply.headers(rateLimitHeaders(admitted.rateLimit));
  const { job } = await deps.jobs.submit(
    {
      operation: call.operation,
      model: admitted.model,
      body: await bytesOf(call),
      contentType: call.contentType,
      constraints: request.principal!.constraints,
      idempotencyKey: key,
      metadata: call.bodyFile === '' ? metadataOf(call.body) : {},
      costMaxNanoUsd: admitted.costMaxNanoUsd,
      costMinNanoUsd: admitted.costMinNanoUsd,
      resultBytesMax,
    },
    asCallerWithJob(request),
  );
  reply.headers(retirementHeaders(admitted.model, admitted.retirement, deps.publicUrl));
  return answer(deps, job!, submission);
}

const admit = (
  { inference }: InferenceDeps,
  { operation, body, contentType, bodyFile }: InferenceCall,
  { request, gone }: Submission,
) => {
  const { constraints } = request.principal!;
  const call = create(InvokeRequestSchema, { operation, body, contentType, bodyFile, constraints });
  return inference.admitJob({ call }, { ...asCaller(request), signal: gone });
};

/** Why no earlier submission is looked for: whoever sends too much is answered when it is sent later, and no such body was ever admitted. */
const neverBefore = [
  ErrorReason.CANCELLED,
  ErrorReason.INVALID_REQUEST,
  ErrorReason.RATE_LIMITED,
  ErrorReason.TOKEN_RATE_LIMITED,
];

/**
 * The job of an earlier submission with the same Idempotency-Key: a call that is refused, since its model has retired for example, may be
 * the repeat of one that was not.
 */
async function submittedBefore(
  { jobs }: InferenceDeps,
  call: InferenceCall,
  { request, key, refusal }: { request: FastifyRequest; key: string; refusal: unknown },
): Promise<Job | undefined> {
  if (key === '' || neverBefore.some((reason) => hasReason(refusal, reason))) return undefined;
  const { operation, contentType } = call;
  const repeat = { operation, contentType, body: await bytesOf(call), idempotencyKey: key, resultBytesMax };
  return (await jobs.findSubmitted(repeat, asCallerWithJob(request))).job;
}

const bytesOf = async ({ body, bodyFile }: InvokeBody): Promise<Uint8Array> =>
  bodyFile === '' ? body : await readFile(bodyFile);

function answer(deps: InferenceDeps, job: Job, { request, reply }: Submission): Promise<FastifyReply> {
  if (prefersJob(request)) reply.header('preference-applied', 'respond-async');
  reply.code(202).headers({ location: `/api/v1/jobs/${job.id}`, 'retry-after': lookAgainSeconds });
  return sendJob(deps, job, request, reply);
}

/** The client's `metadata`, if it has the form that OpenAI's clients send; the upstream judges everything else. */
function metadataOf(bytes: Uint8Array): Record<string, string> {
  const body = asBuffer(bytes);
  // Most bodies have none, and the longest ones take a while to parse.
  if (!body.includes('"metadata"')) return {};
  const { metadata } = JSON.parse(body.toString('utf8')) as { metadata?: unknown };
  if (!isObject(metadata)) return {};
  const pairs = Object.entries(metadata);
  const isSmall = pairs.every(
    ([name, value]) =>
      name !== '' &&
      typeof value === 'string' &&
      hasAtMost(64, name) &&
      hasAtMost(512, value) &&
      isStorableText(name) &&
      isStorableText(value),
  );
  return pairs.length <= 16 && isSmall ? (Object.fromEntries(pairs) as Record<string, string>) : {};
}

/** Whether a text has no more characters, as people and Jobs count them, than this; a character has one or two UTF-16 units. */
const hasAtMost = (characters: number, text: string): boolean =>
  text.length <= 2 * characters && [...text].length <= characters;
