import { type Static, Type } from 'typebox';
import { type AdminJob, type Job, JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { usdJson } from '#shared/money.ts';
import { fromErrorDetail } from '#shared/rpc/connect-errors.ts';
import { idSchema, isoTime, isoTimeSchema, usdSchema } from '../http/json.ts';
import { orNull } from '../http/nullable.ts';
import { quantitiesJson, quantitiesSchema } from '../http/quantities-json.ts';
import { spelling } from '../http/spelling.ts';
import { errorBody, errorBodySchema } from './errors.ts';

/** The states of a job by their names in JSON, in the order of a job's life. */
export const jobStatuses = spelling({
  queued: JobStatus.QUEUED,
  in_progress: JobStatus.IN_PROGRESS,
  completed: JobStatus.COMPLETED,
  failed: JobStatus.FAILED,
  cancelled: JobStatus.CANCELLED,
});

/** A job without its result, as in lists (openai-contract.md section 6). */
export const listedJobSchema = Type.Object(
  {
    id: Type.String({ description: '`job_` and 32 hexadecimal digits.' }),
    object: Type.Literal('job'),
    endpoint: Type.String({
      description: 'The endpoint of the call, with the prefix `/v1`, such as `/v1/chat/completions`.',
    }),
    model: Type.String(),
    status: jobStatuses.schema,
    created_at: isoTimeSchema,
    started_at: orNull(isoTimeSchema),
    completed_at: orNull(isoTimeSchema),
    failed_at: orNull(isoTimeSchema),
    cancelled_at: orNull(isoTimeSchema),
    expires_at: orNull(
      Type.String({
        format: 'date-time',
        description: 'When it is removed, with its result; null until it has ended.',
      }),
    ),
    error: orNull(errorBodySchema.properties.error),
    usage: orNull(
      Type.Object({ ...quantitiesSchema.properties, cost_usd: usdSchema }, { description: 'Null until it has ended.' }),
    ),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'The `metadata` of the request.' }),
  },
  { $id: 'ListedJob' },
);
export const listedJobJson = (job: Job): Static<typeof listedJobSchema> => ({
  id: job.id,
  object: 'job',
  endpoint: job.endpoint,
  model: job.model,
  status: jobStatuses.name(job.status),
  created_at: isoTime(job.createdAt!),
  started_at: isoTime(job.startedAt),
  completed_at: isoTime(job.completedAt),
  failed_at: isoTime(job.failedAt),
  cancelled_at: isoTime(job.cancelledAt),
  expires_at: isoTime(job.expiresAt),
  error: job.error === undefined ? null : errorBody(fromErrorDetail(job.error)).error,
  usage: job.usage === undefined ? null : { ...quantitiesJson(job.usage), cost_usd: usdJson(job.usage.costNanoUsd) },
  metadata: job.metadata,
});

/** A job for operators: without its request and its answer. */
export const adminJobSchema = Type.Object(
  {
    ...Type.Omit(listedJobSchema, ['metadata']).properties,
    tenant_id: idSchema,
    user_id: idSchema,
    api_key_id: orNull(Type.String({ format: 'uuid', description: 'Null for a job that a session submitted.' })),
    attempts: Type.Integer(),
    worker_id: orNull(Type.String()),
  },
  { $id: 'AdminJob' },
);
export const adminJobJson = ({
  job,
  tenantId,
  userId,
  apiKeyId,
  attempts,
  workerId,
}: AdminJob): Static<typeof adminJobSchema> => {
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

export const jobSchema = Type.Object(
  {
    ...listedJobSchema.properties,
    result: Type.Unknown({
      description:
        'What the synchronous call would have returned, once the job is completed: a JSON body as it is, any other as `{content_type, b64}`.',
    }),
  },
  { $id: 'Job' },
);

/** The schema of answers that `jobJson` has already written. */
export const writtenJobSchema = Type.Unsafe<Buffer>(jobSchema);

/**
 * A job as JSON text, in parts. A JSON result is embedded with the very bytes of the synchronous answer; any other as `{content_type,
 * b64}`.
 */
export function jobJson(job: Job): Uint8Array[] {
  const { error, usage, metadata, ...first } = listedJobJson(job);
  const head = JSON.stringify({ ...first, error });
  const tail = JSON.stringify({ usage, metadata });
  return [Buffer.from(`${head.slice(0, -1)},"result":`), ...resultJson(job), Buffer.from(`,${tail.slice(1)}`)];
}

function resultJson({ result }: Job): Uint8Array[] {
  if (result === undefined) return [Buffer.from('null')];
  if (/^application\/json\b/i.test(result.contentType)) return [result.body];
  const head = `{"content_type":${JSON.stringify(result.contentType)},"b64":"`;
  return [Buffer.from(head), Buffer.from(asBuffer(result.body).toString('base64'), 'latin1'), Buffer.from('"}')];
}
