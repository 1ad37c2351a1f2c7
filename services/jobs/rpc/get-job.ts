import { create } from '@bufbuild/protobuf';
import { type Job, JobResultSchema } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { bodyBytes, bodyKinds, readBody } from '../db/bodies.ts';
import { type JobRow, jobColumns, jobMessage } from '../db/job-rows.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { noSuchJob, ownerOf, requiredJobId } from './caller.ts';

type ReadDeps = Pick<JobsDeps, 'database' | 'largeReads' | 'clock'>;

export const getJob =
  (deps: ReadDeps): JobsRpc<'getJob'> =>
  async ({ jobId, resultBytesMax }, context) => {
    const { tenantId, userId } = ownerOf(context);
    const { signal } = context;
    return { job: await readJob(deps, { tenantId, userId, id: requiredJobId(jobId) }, { resultBytesMax, signal }) };
  };

/** One of a user's own jobs, with its result unless that is larger than the caller accepts; 0 accepts all. */
export async function readJob(
  { database, largeReads, clock }: ReadDeps,
  job: { tenantId: string; userId: string; id: string },
  { resultBytesMax = 0n, signal }: { resultBytesMax?: bigint; signal?: AbortSignal } = {},
): Promise<Job> {
  const { rows } = await database.query<JobRow & { result: Buffer | null }>({
    name: 'jobs-get',
    text: `select ${jobColumns}, result from jobs
      where tenant_id = $1 and user_id = $2 and id = $3 and ${unexpiredSql(4)}`,
    values: [job.tenantId, job.userId, job.id, clockShiftMs(clock)],
  });
  const [row] = rows;
  if (row === undefined) throw noSuchJob();
  const message = jobMessage(row);
  const contentType = row.result_content_type;
  if (contentType === null) return message;
  const isLimited = resultBytesMax > 0n;
  const bytes = isLimited ? BigInt(row.result?.byteLength ?? (await bodyBytes(database, job, bodyKinds.result))) : 0n;
  if (bytes > resultBytesMax) {
    message.resultLeftOutBytes = bytes;
    return message;
  }
  const body = row.result ?? (await largeReads(() => readBody(database.pool, job, bodyKinds.result, signal)));
  message.result = create(JobResultSchema, { contentType, body });
  return message;
}
