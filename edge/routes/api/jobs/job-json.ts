import { type AdminJob, type Job, JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { usdJson } from '#shared/money.ts';
import { fromErrorDetail } from '#shared/rpc/connect-errors.ts';
import { isoTime } from '../../../http/json.ts';
import { spelling } from '../../../http/spelling.ts';
import { errorBody } from '../../../openai/errors.ts';
import { quantitiesJson } from '../usage/measures-json.ts';

/** The states of a job by their names in JSON, in the order of a job's life. */
export const jobStatuses = spelling({
  queued: JobStatus.QUEUED,
  in_progress: JobStatus.IN_PROGRESS,
  completed: JobStatus.COMPLETED,
  failed: JobStatus.FAILED,
  cancelled: JobStatus.CANCELLED,
});

/** A job without its result, as in lists (openai-contract.md section 6). */
export const listedJobJson = (job: Job) => ({
  id: job.id,
  object: 'job',
  endpoint: job.endpoint,
  model: job.model,
  status: jobStatuses.name(job.status),
  created_at: isoTime(job.createdAt),
  started_at: isoTime(job.startedAt),
  completed_at: isoTime(job.completedAt),
  failed_at: isoTime(job.failedAt),
  cancelled_at: isoTime(job.cancelledAt),
  expires_at: isoTime(job.expiresAt),
  error: job.error === undefined ? null : errorBody(fromErrorDetail(job.error)).error,
  usage: job.usage === undefined ? null : { ...quantitiesJson(job.usage), cost_usd: usdJson(job.usage.costNanoUsd) },
  metadata: job.metadata,
});

/** A job for operators: never what was asked or answered. */
export const adminJobJson = ({ job, tenantId, userId, apiKeyId, attempts, workerId }: AdminJob) => {
  const { metadata: _, ...rest } = listedJobJson(job!);
  return {
    ...rest,
    tenant_id: tenantId,
    user_id: userId,
    api_key_id: apiKeyId === '' ? null : apiKeyId,
    attempts,
    worker_id: workerId === '' ? null : workerId,
  };
};

/**
 * A job as JSON text. A result in JSON stands there with the very bytes of the synchronous answer; anything else as `{content_type,
 * b64}`.
 */
export function jobJson(job: Job): Buffer {
  const { error, usage, metadata, ...first } = listedJobJson(job);
  const head = JSON.stringify({ ...first, error });
  const tail = JSON.stringify({ usage, metadata });
  return Buffer.concat([
    Buffer.from(`${head.slice(0, -1)},"result":`),
    resultJson(job),
    Buffer.from(`,${tail.slice(1)}`),
  ]);
}

function resultJson({ result }: Job): Uint8Array {
  if (result === undefined) return Buffer.from('null');
  if (/^application\/json\b/i.test(result.contentType)) return result.body;
  const body = asBuffer(result.body);
  return Buffer.from(JSON.stringify({ content_type: result.contentType, b64: body.toString('base64') }));
}
