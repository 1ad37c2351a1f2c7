import { NIL } from 'uuid';
import { parseJobId } from '#shared/ids.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { type JobRow, jobColumns, jobMessage } from '../db/job-rows.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';

type AdminRow = JobRow & {
  tenant_id: string;
  user_id: string;
  subject_id: string;
  attempts: number;
  worker_id: string | null;
};

/** Jobs of every organization, for operators; never their requests or answers. */
export const adminListJobs =
  ({ database }: Pick<JobsDeps, 'database'>): JobsRpc<'adminListJobs'> =>
  async (request, context) => {
    operatorCaller(context);
    const rows = pageRows(request.page);
    const filter = `($1::uuid is null or tenant_id = $1) and ($2::smallint = 0 or status = $2) and ($3 = '' or model = $3)
      and ($4::uuid is null or id = $4)`;
    const tenantId = request.tenantId === '' ? null : request.tenantId;
    // What is no job's id finds none.
    const id = request.jobId === '' ? null : (parseJobId(request.jobId) ?? NIL);
    const values = [tenantId, request.status, request.model, id];
    const [found, counted] = await Promise.all([
      database.query<AdminRow>({
        name: 'jobs-admin-list',
        // The page is found, and the rest counted, by jobs_by_id alone: rows hold their results.
        text: `select ${jobColumns}, jobs.tenant_id, user_id, subject_id, attempts, worker_id from (
            select tenant_id, id from jobs where ${filter} order by id desc limit $5 offset $6
          ) as page join jobs on jobs.tenant_id = page.tenant_id and jobs.id = page.id
          order by jobs.id desc`,
        values: [...values, rows.limit, rows.offset],
      }),
      database.query<{ total: bigint }>({
        name: 'jobs-admin-count',
        text: `select count(*) as total from jobs where ${filter}`,
        values,
      }),
    ]);
    return {
      jobs: found.rows.map((row) => ({
        job: jobMessage({ ...row, metadata: {} }),
        tenantId: row.tenant_id,
        userId: row.user_id,
        apiKeyId: row.subject_id === row.user_id ? '' : row.subject_id,
        attempts: row.attempts,
        workerId: row.worker_id ?? '',
      })),
      pageInfo: pageInfo(rows, Number(counted.rows[0]!.total)),
    };
  };
