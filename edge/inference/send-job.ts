import { finished, Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Job } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { RouteDeps } from '../app.ts';
import { asCallerWithJob } from '../caller.ts';
import { goneSignal } from '../http/client-gone.ts';
import { jobJson } from '../openai/job-json.ts';

/**
 * Results up to this size come with Jobs' first answer. Larger ones are fetched when there is room; smaller ones are not worth counting.
 */
export const resultBytesMax = 64n * 1024n;

/** Answers with a job. A result that Jobs left out takes room in memory from now until the client has taken it. */
export async function sendJob(
  { jobs, resultRoom, metrics }: Pick<RouteDeps, 'jobs' | 'resultRoom' | 'metrics'>,
  job: Job,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  reply.header('content-type', 'application/json; charset=utf-8');
  if (job.resultLeftOutBytes === 0n) return reply.send(Buffer.concat(jobJson(job)));
  let giveBack: () => void;
  try {
    giveBack = resultRoom.take(request.principal!.userId, Number(job.resultLeftOutBytes));
  } catch (refusal) {
    metrics.shed('memory');
    throw refusal;
  }
  try {
    const options = { ...asCallerWithJob(request), signal: goneSignal(request.raw.socket) };
    const whole = await jobs.getJob({ jobId: job.id }, options);
    const parts = jobJson(whole.job!);
    const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
    // Sent in parts: in one buffer they would take the memory twice.
    return reply.header('content-length', length).send(Readable.from(parts));
  } finally {
    finished(reply.raw, giveBack);
  }
}
