import { JobOrder, type ListJobsRequest } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { parseJobId } from '#shared/ids.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { type JobRow, jobColumns, jobMessage } from '../db/job-rows.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { ownerOf } from './caller.ts';

/** Lists by pages and by cursor at once. Ids are UUIDv7, so they are in the order of submission. */
export const listJobs =
  ({ database, clock }: Pick<JobsDeps, 'database' | 'clock'>): JobsRpc<'listJobs'> =>
  async (request, context) => {
    const { tenantId, userId } = ownerOf(context);
    const after = cursorOf(request);
    const rows = pageRows(after === null ? request.page : { ...request.page!, page: 1 });
    const isAscending = request.order === JobOrder.ASC;
    const filter = `tenant_id = $1 and user_id = $2 and ${unexpiredSql(3)}
      and ($4::smallint = 0 or status = $4) and ($5 = '' or model = $5) and ($6 = '' or endpoint = $6)`;
    const values = [tenantId, userId, clockShiftMs(clock), request.status, request.model, request.endpoint];
    const [found, counted] = await Promise.all([
      database.query<JobRow>({
        name: `jobs-list-${isAscending ? 'asc' : 'desc'}`,
        // The page is found, and the rest counted, by jobs_of_user alone: rows hold their results.
        text: `select ${jobColumns} from (
            select id from jobs where ${filter} and ($7::uuid is null or id ${isAscending ? '>' : '<'} $7)
            order by id ${isAscending ? 'asc' : 'desc'} limit $8 offset $9
          ) as page join jobs on tenant_id = $1 and jobs.id = page.id
          order by jobs.id ${isAscending ? 'asc' : 'desc'}`,
        values: [...values, after, rows.limit + 1, rows.offset],
      }),
      database.query<{ total: bigint }>({
        name: 'jobs-count',
        text: `select count(*) as total from jobs where ${filter}`,
        values,
      }),
    ]);
    const hasMore = found.rows.length > rows.limit;
    const page = pageInfo(rows, Number(counted.rows[0]!.total));
    return {
      jobs: found.rows.slice(0, rows.limit).map(jobMessage),
      // By the cursor, which need not be at the end of a page.
      pageInfo: after === null ? page : { ...page, hasNext: hasMore, hasPrev: true },
      hasMore,
    };
  };

/** A cursor is a position in the order: it stays valid when its job is removed, and reveals nothing about others' jobs. */
function cursorOf({ after }: ListJobsRequest): string | null {
  if (after === '') return null;
  const id = parseJobId(after);
  if (id === null) throw invalidRequest('after', '`after` must be the id of a job.', 'invalid_value');
  return id;
}
