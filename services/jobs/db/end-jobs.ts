import { toBinary } from '@bufbuild/protobuf';
import { type ErrorDetail, ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  type JobHold,
  JobHoldSchema,
  type MeteredUsage,
  MeteredUsageSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { newHoldMs } from '../budget/holds.ts';
import { bodyKinds, deleteBody, inRowBytesMax, writeBody } from './bodies.ts';
import type { HeldJob } from './take-jobs.ts';
import { presentSql } from './time.ts';

/** How a job ended. */
export type Ending = { usage?: MeteredUsage } & (
  | { status: typeof JobStatus.COMPLETED; contentType: string; body: Uint8Array }
  /** `isLost`: its call may have succeeded nevertheless. */
  | { status: typeof JobStatus.FAILED; error: ErrorDetail; isLost?: true }
);

export const isLost = (ending: Ending): boolean => ending.status === JobStatus.FAILED && ending.isLost === true;

/** How long ended jobs are kept (decisions.md, Jobs). */
export const keptHours = 24;

/** What a job keeps of its request after its end, beside its result; 0 for `{}`. */
export const metadataBytesSql = 'octet_length(jobs.metadata::text) - 2';

/** Whether Billing is to be told of the end of a job that has no result. */
export const isToReturnSql = '(jobs.hold_expires_at is not null or jobs.was_lost)';

/** Counts what those in `ended` keep. */
export const keepSql = `
  insert into kept_results (tenant_id, bytes)
  select tenant_id, sum(result_bytes)::bigint from ended group by tenant_id having sum(result_bytes) > 0
  order by tenant_id
  on conflict (tenant_id) do update set bytes = kept_results.bytes + excluded.bytes`;

/**
 * Ends jobs, with their results, and deletes their requests; returns the ids of those that the worker still held. The room of a failed one is
 * still to be given back, and so is what a lost run of it was charged.
 */
const end = `
  with told as (
    select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[], $7::text[],
      $8::bytea[], $10::bigint[], $11::boolean[])
      as told (tenant_id, id, fence, status, error, usage, content_type, body, bytes, is_lost)
  ), ended as (
    update jobs set status = told.status, ended_at = present.at, expires_at = present.at + interval '${keptHours} hours',
      worker_id = null, lease_expires_at = null,
      hold_expires_at = case when told.status = ${JobStatus.FAILED} and (${isToReturnSql} or told.is_lost) then present.at end,
      was_lost = jobs.was_lost or told.is_lost,
      error = told.error, usage = told.usage, result_content_type = told.content_type, request = null, result = told.body,
      result_bytes = told.bytes + ${metadataBytesSql}
    from told, (select ${presentSql(9)} as at) as present
    where jobs.tenant_id = told.tenant_id and jobs.id = told.id and jobs.fence = told.fence
      and jobs.status = ${JobStatus.IN_PROGRESS}
    returning jobs.tenant_id, jobs.id, jobs.result_bytes
  ), kept as (
    ${keepSql}
  ), requests as (
    delete from job_bodies using ended where job_bodies.tenant_id = ended.tenant_id and job_bodies.job_id = ended.id
      and kind = ${bodyKinds.request}
  )
  select id from ended`;

/** A result too large for its row is left to `writeBody`. */
function endStatement(endings: readonly { job: HeldJob; ending: Ending }[], shiftMs: number) {
  const completed = endings.map(({ ending }) => (ending.status === JobStatus.COMPLETED ? ending : null));
  return {
    name: 'jobs-end',
    text: end,
    values: [
      endings.map(({ job }) => job.tenantId),
      endings.map(({ job }) => job.id),
      endings.map(({ job }) => job.fence),
      endings.map(({ ending }) => ending.status),
      endings.map(({ ending }) =>
        ending.status === JobStatus.FAILED ? Buffer.from(toBinary(ErrorDetailSchema, ending.error)) : null,
      ),
      endings.map(({ ending }) =>
        ending.usage === undefined ? null : Buffer.from(toBinary(MeteredUsageSchema, ending.usage)),
      ),
      completed.map((ending) => ending?.contentType ?? null),
      completed.map((ending) =>
        ending === null || ending.body.byteLength > inRowBytesMax ? null : Buffer.from(ending.body),
      ),
      shiftMs,
      completed.map((ending) => ending?.body.byteLength ?? 0),
      endings.map(({ ending }) => isLost(ending)),
    ],
  };
}

/** Ends several jobs at once, whose results fit into their rows. */
export async function endJobs(
  database: Pick<ServiceDatabase, 'query'>,
  endings: readonly { job: HeldJob; ending: Ending }[],
  shiftMs: number,
): Promise<Set<string>> {
  const { rows } = await database.query<{ id: string }>(endStatement(endings, shiftMs));
  return new Set(rows.map(({ id }) => id));
}

/**
 * Ends one job whose result is larger than `inRowBytesMax`. While that is stored, the row is locked only against its removal and other
 * workers: the extension of its lease and its cancellations would wait for hundreds of megabytes, each with a connection.
 */
export function endLargeJob(
  database: Pick<ServiceDatabase, 'pool'>,
  job: HeldJob,
  ending: Ending & { status: typeof JobStatus.COMPLETED },
  shiftMs: number,
): Promise<boolean> {
  const { tenantId, id, fence } = job;
  return sqlTransaction(database, async (sql) => {
    const held = await sql.query({
      name: 'jobs-is-held',
      text: `select from jobs where tenant_id = $1 and id = $2 and fence = $3 and status = ${JobStatus.IN_PROGRESS} for key share`,
      values: [tenantId, id, fence],
    });
    if (held.rowCount === 0) return false;
    await writeBody(sql, job, bodyKinds.result, ending.body);
    // Last: until the commit nobody else counts a result of this organization.
    const ended = await sql.query(endStatement([{ job, ending }], shiftMs));
    if (ended.rowCount === 1) return true;
    await deleteBody(sql, job, bodyKinds.result);
    return false;
  });
}

/**
 * Puts a job back into the queue, to be taken again after a while, unless the worker no longer holds it. `hasStarted` is false for one for
 * which nobody has made a call yet, `wasLost` true for one whose call was left.
 */
export async function requeueJob(
  database: Pick<ServiceDatabase, 'query'>,
  job: HeldJob,
  next: { delayMs: number; countsAsAttempt: boolean; hasStarted: boolean; wasLost?: boolean },
  shiftMs: number,
): Promise<void> {
  await database.query({
    name: 'jobs-requeue',
    text: `update jobs set status = ${JobStatus.QUEUED}, worker_id = null, lease_expires_at = null, attempts = attempts - $5,
        started_at = case when $7 then started_at end, was_lost = was_lost or $8,
        available_at = ${presentSql(6)} + $4::float8 * interval '1 millisecond'
      where tenant_id = $1 and id = $2 and fence = $3 and status = ${JobStatus.IN_PROGRESS}`,
    values: [
      job.tenantId,
      job.id,
      job.fence,
      next.delayMs,
      next.countsAsAttempt ? 0 : 1,
      shiftMs,
      next.hasStarted,
      next.wasLost ?? false,
    ],
  });
}

/** Records the room held for a running job, before it is used; false when the worker no longer holds the job. */
export async function saveHold(
  database: Pick<ServiceDatabase, 'query'>,
  job: HeldJob,
  hold: JobHold,
  shiftMs: number,
): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'jobs-save-hold',
    text: `update jobs set hold = $4, hold_expires_at = ${presentSql(6)} + $5::float8 * interval '1 millisecond'
      where tenant_id = $1 and id = $2 and fence = $3 and status = ${JobStatus.IN_PROGRESS}`,
    values: [
      job.tenantId,
      job.id,
      job.fence,
      Buffer.from(toBinary(JobHoldSchema, hold)),
      hold.leases.length === 0 ? null : newHoldMs,
      shiftMs,
    ],
  });
  return rowCount === 1;
}
