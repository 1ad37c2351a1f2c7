import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { ownerOf } from './caller.ts';

const statuses = [
  JobStatus.QUEUED,
  JobStatus.IN_PROGRESS,
  JobStatus.COMPLETED,
  JobStatus.FAILED,
  JobStatus.CANCELLED,
] as const;

export const getJobStats =
  ({ database, clock }: Pick<JobsDeps, 'database' | 'clock'>): JobsRpc<'getJobStats'> =>
  async (_request, context) => {
    const { tenantId, userId } = ownerOf(context);
    const { rows } = await database.query<{ status: JobStatus; count: bigint; oldest: Date | null }>({
      name: 'jobs-stats',
      // Counted and found by indexes alone: of all jobs only the oldest waiting one is read.
      text: `select status, count(*) as count, case status when ${JobStatus.QUEUED} then (
            select created_at from jobs where tenant_id = $1 and id = (
              select id from jobs where tenant_id = $1 and user_id = $2 and status = ${JobStatus.QUEUED} order by id limit 1)
          ) end as oldest
        from jobs where tenant_id = $1 and user_id = $2 and ${unexpiredSql(3)}
        group by status`,
      values: [tenantId, userId, clockShiftMs(clock)],
    });
    const oldestQueued = rows.find(({ status }) => status === JobStatus.QUEUED)?.oldest ?? undefined;
    return {
      total: rows.reduce((sum, { count }) => sum + count, 0n),
      byStatus: statuses.map((status) => ({ status, count: rows.find((row) => row.status === status)?.count ?? 0n })),
      oldestQueuedAt: oldestQueued && timestampFromDate(oldestQueued),
    };
  };
