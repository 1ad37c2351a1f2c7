import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { backoffMsMax } from '../domain/retry.ts';
import { type HeldJob, leaseMs } from './take-jobs.ts';
import { hasComeSql, predatesSetBackSql, presentSql } from './time.ts';

/**
 * Extends the leases of a worker's jobs; returns the ids of those that it still holds. One that is just being changed, as by a batch of ends
 * that may wait for others of them, is left for the next time: it counts as what it was.
 */
export async function extendLeases(
  database: Pick<ServiceDatabase, 'query'>,
  jobs: readonly HeldJob[],
  shiftMs: number,
): Promise<Set<string>> {
  const held = `from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as told (tenant_id, id, fence)
    join jobs on jobs.tenant_id = told.tenant_id and jobs.id = told.id and jobs.fence = told.fence
    where jobs.status = ${JobStatus.IN_PROGRESS}`;
  const { rows } = await database.query<{ id: string }>({
    name: 'jobs-extend-leases',
    text: `with free as (
        select jobs.tenant_id, jobs.id ${held} for no key update of jobs skip locked
      ), extended as (
        update jobs set lease_expires_at = ${presentSql(4)} + interval '${leaseMs} milliseconds'
        from free where jobs.tenant_id = free.tenant_id and jobs.id = free.id
      )
      select jobs.id ${held}`,
    values: [jobs.map(({ tenantId }) => tenantId), jobs.map(({ id }) => id), jobs.map(({ fence }) => fence), shiftMs],
  });
  return new Set(rows.map(({ id }) => id));
}

/**
 * Puts the jobs of silent workers back into the queue, as lost. A lease that ends later than any can was taken before the database's clock
 * was set back, and ends as if it were extended now: its worker may be alive.
 */
export async function reclaimLapsed(database: Pick<ServiceDatabase, 'query'>, shiftMs: number): Promise<number> {
  const { rowCount } = await database.query({
    name: 'jobs-reclaim',
    text: `with turned_back as (
        update jobs set lease_expires_at = ${presentSql(1)} + interval '${leaseMs} milliseconds'
        where status = ${JobStatus.IN_PROGRESS} and ${predatesSetBackSql('lease_expires_at', 1, leaseMs)}
      )
      update jobs set status = ${JobStatus.QUEUED}, worker_id = null, lease_expires_at = null, was_lost = true,
        -- Not by the clock of this process, which may be ahead of those that take it.
        available_at = least(lease_expires_at, now())
      where (tenant_id, id) in (
        select tenant_id, id from jobs where status = ${JobStatus.IN_PROGRESS} and lease_expires_at <= ${presentSql(1)}
        for update skip locked)`,
    values: [shiftMs],
  });
  return rowCount ?? 0;
}

/**
 * Whether there is anything for a worker to do: sent once a second on the connection on which workers listen, so an idle worker makes no
 * other query.
 */
export const dueStatement = (shiftMs: number) => ({
  text: `select
      -- In the order of their index, so that it is read: by their number the planner expects to meet one soon in the table, where those that
      -- have ended may come first.
      exists (select 1 from (
          select available_at from jobs.jobs where status = ${JobStatus.QUEUED} order by tenant_id, subject_id, model, id offset 0
        ) as waiting where ${hasComeSql('available_at', 1, backoffMsMax)}) as is_queued,
      exists (select 1 from jobs.jobs where status = ${JobStatus.IN_PROGRESS}
        and ${hasComeSql('lease_expires_at', 1, leaseMs)}) as is_lapsed`,
  values: [shiftMs],
});
