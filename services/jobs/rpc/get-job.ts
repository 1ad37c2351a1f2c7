import { create } from '@bufbuild/protobuf';
import { type Job, JobResultSchema } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { bodyKinds, readBody } from '../db/bodies.ts';
import { type JobRow, jobColumns, jobMessage } from '../db/job-rows.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { noSuchJob, ownerOf, requiredJobId } from './caller.ts';

export const getJob =
  (deps: Pick<JobsDeps, 'database' | 'clock'>): JobsRpc<'getJob'> =>
  async ({ jobId }, context) => {
    const { tenantId, userId } = ownerOf(context);
    return { job: await readJob(deps, { tenantId, userId, id: requiredJobId(jobId) }) };
  };

/** One of a user's own jobs, with its result. */
export async function readJob(
  { database, clock }: Pick<JobsDeps, 'database' | 'clock'>,
  job: { tenantId: string; userId: string; id: string },
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
  if (contentType !== null) {
    const body = row.result ?? (await readBody(database.pool, job, bodyKinds.result));
    message.result = create(JobResultSchema, { contentType, body });
  }
  return message;
}
