import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { type EndedRow, endedColumns, endedJob, returnHold } from '../budget/return-hold.ts';
import { bodyKinds } from '../db/bodies.ts';
import { isToReturnSql, keepSql, keptHours, metadataBytesSql } from '../db/end-jobs.ts';
import { clockShiftMs, presentSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { channels } from '../workers/channels.ts';
import { ownerOf, requiredJobId } from './caller.ts';
import { readJob } from './get-job.ts';

/**
 * Ends a job that has not ended. The worker that runs it hears of it at the commit, and aborts its upstream, whose answer may have been
 * complete by then: as nobody gets it, nobody pays for it.
 */
export const cancelJob =
  (deps: JobsDeps): JobsRpc<'cancelJob'> =>
  async ({ jobId, resultBytesMax }, context) => {
    const { tenantId, userId } = ownerOf(context);
    const id = requiredJobId(jobId);
    const { rows } = await deps.database.query<EndedRow>({
      name: 'jobs-cancel',
      text: `with ended as (
          update jobs set status = ${JobStatus.CANCELLED}, ended_at = ${presentSql(4)},
            expires_at = ${presentSql(4)} + interval '${keptHours} hours',
            worker_id = null, lease_expires_at = null, request = null, result_bytes = ${metadataBytesSql},
            was_lost = was_lost or status = ${JobStatus.IN_PROGRESS},
            hold_expires_at = case when ${isToReturnSql} or status = ${JobStatus.IN_PROGRESS} then ${presentSql(4)} end
          where tenant_id = $1 and user_id = $2 and id = $3 and status in (${JobStatus.QUEUED}, ${JobStatus.IN_PROGRESS})
          returning ${endedColumns}, result_bytes
        ), kept as (
          ${keepSql}
        ), request as (
          delete from job_bodies using ended where job_bodies.tenant_id = ended.tenant_id and job_bodies.job_id = ended.id
            and kind = ${bodyKinds.request}
        )
        select *, pg_notify('${channels.cancelled}', id::text) from ended`,
      values: [tenantId, userId, id, clockShiftMs(deps.clock)],
    });
    const [cancelled] = rows;
    if (cancelled !== undefined) {
      deps.metrics.ended('cancelled');
      await returnHold(deps, endedJob(cancelled));
    }
    return { job: await readJob(deps, { tenantId, userId, id }, { resultBytesMax, signal: context.signal }) };
  };
