import { fromBinary } from '@bufbuild/protobuf';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { type Caller, CallerSchema } from '#shared/rpc/caller.ts';
import { type Allowance, type Choice, chooseLanes, type Lane, type Running } from '../domain/choose-lanes.ts';
import { keptBytesMax } from '../domain/quotas.ts';
import { backoffMsMax } from '../domain/retry.ts';
import { inRowBytesMax } from './bodies.ts';
import { hasComeSql, presentSql } from './time.ts';

/** A job held by a worker. */
export type TakenJob = {
  tenantId: string;
  id: string;
  subjectId: string;
  caller: Caller;
  operation: Operation;
  model: string;
  contentType: string;
  /** Null if it is too large for the job's row. */
  request: Buffer | null;
  requestBytes: number;
  /** Rises each time the job is taken: this worker may end the job only under this number. */
  fence: bigint;
  /** Including the current one. */
  attempts: number;
  createdMs: number;
  startedMs: number;
  /** Whether a call may have been made for it before. */
  hasStartedBefore: boolean;
  /** Whether a call that was made for it before may have succeeded, and been charged: its worker was lost with the answer. */
  wasLost: boolean;
  /** Milliseconds until it fails for having taken too long; negative if that has passed. */
  leftMs: number;
  costMaxNanoUsd: bigint;
  costMinNanoUsd: bigint;
  hold: JobHold;
};

/** What a statement needs to change a job that its worker still holds. */
export type HeldJob = Pick<TakenJob, 'tenantId' | 'id' | 'fence'>;

/**
 * How long a worker may hold a job without a sign of life. The jobs of lost workers continue after this time, when another worker looks.
 */
export const leaseMs = 30_000;

type WaitingRow = { tenant_id: string | null; subject_id: string; model: string; count: bigint };
type LaneRow = { tenant_id: string; subject_id: string; model: string; is_large: boolean };

/** The most organizations whose lanes one statement reads, well within its time: each may have many callers and models. */
const tenantsAtOnceMax = 512;

const waitingAndRunning = `
  with recursive tenants as (
    (select tenant_id from jobs where status = ${JobStatus.QUEUED} order by tenant_id limit 1)
    union all
    -- A loose index scan: one step for each organization, however many of its jobs wait.
    select next.tenant_id from tenants cross join lateral (
      select tenant_id from jobs where status = ${JobStatus.QUEUED} and tenant_id > tenants.tenant_id
      order by tenant_id limit 1
    ) as next
  )
  (select tenants.tenant_id, null::uuid as subject_id, null as model, null::bigint as count from tenants
    left join served_tenants on served_tenants.tenant_id = tenants.tenant_id
    where not exists (select from kept_results where tenant_id = tenants.tenant_id and bytes >= ${keptBytesMax})
    order by served_at nulls first, tenants.tenant_id)
  union all
  select null, subject_id, model, count(*) from jobs where status = ${JobStatus.IN_PROGRESS} group by subject_id, model`;

const lanesOfTenants = `
  with recursive lanes as (
    select first.* from unnest($1::uuid[]) as waiting (tenant_id) cross join lateral (
      select tenant_id, subject_id, model from jobs
      where status = ${JobStatus.QUEUED} and tenant_id = waiting.tenant_id
      order by subject_id, model limit 1
    ) as first
    union all
    -- One step for each lane, however many jobs wait in it.
    select next.* from lanes cross join lateral (
      select tenant_id, subject_id, model from jobs
      where status = ${JobStatus.QUEUED} and tenant_id = lanes.tenant_id
        and (subject_id, model) > (lanes.subject_id, lanes.model)
      order by subject_id, model limit 1
    ) as next
  )
  select tenant_id, subject_id, model, case when $2::boolean then (
      select body_bytes > ${inRowBytesMax} from jobs
      where status = ${JobStatus.QUEUED} and tenant_id = lanes.tenant_id and subject_id = lanes.subject_id
        and model = lanes.model
      order by id limit 1
    ) else false end as is_large
  from lanes order by array_position($1::uuid[], tenant_id)`;

const take = `
  with picked as (
    select lane.place, waiting.*
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[]) with ordinality
      as lane (tenant_id, subject_id, model, slots, place)
    cross join lateral (
      select jobs.tenant_id, jobs.id, jobs.body_bytes, jobs.started_at from jobs
      where jobs.status = ${JobStatus.QUEUED} and jobs.tenant_id = lane.tenant_id and jobs.subject_id = lane.subject_id
        and jobs.model = lane.model and ${hasComeSql('jobs.available_at', 7, backoffMsMax)}
      order by jobs.id limit lane.slots for update skip locked
    ) as waiting
  ), chosen as (
    select tenant_id, id, started_at from (
      select *, sum(body_bytes) over (order by turn, place) - body_bytes as bytes_before
      from (
        select *, row_number() over (partition by tenant_id order by round, place) as turn
        from (select *, row_number() over (partition by place order by id) as round from picked) as of_lanes
      ) as of_tenants
    ) as measured
    -- Small ones hardly take memory, and would wait for as long as large ones run.
    where bytes_before < $8 or body_bytes <= ${inRowBytesMax}
  ), served as (
    insert into served_tenants (tenant_id, served_at)
    select tenant_id, clock_timestamp() + place * interval '1 microsecond'
    from unnest($5::uuid[]) with ordinality as turn (tenant_id, place)
    -- Those whose jobs are too large for what is left come first next time.
    where tenant_id not in (select tenant_id from picked except select tenant_id from chosen)
    on conflict (tenant_id) do update set served_at = excluded.served_at
  )
  update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = $6, fence = fence + 1, attempts = attempts + 1,
    started_at = coalesce(chosen.started_at, ${presentSql(7)}),
    lease_expires_at = ${presentSql(7)} + interval '${leaseMs} milliseconds'
  from chosen where jobs.tenant_id = chosen.tenant_id and jobs.id = chosen.id
  returning jobs.tenant_id, jobs.id, subject_id, caller, operation, model, content_type, request, body_bytes, fence,
    attempts, created_at, jobs.started_at, chosen.started_at is not null as has_started_before,
    was_lost, cost_max_nano_usd, cost_min_nano_usd, hold,
    extract(epoch from deadline_at - ${presentSql(7)})::float8 * 1000 as left_ms`;

/**
 * Takes up to `slots` jobs, fairly. Large ones are taken until the requests fill `requestBytes`, which the last one may exceed. `isMore`:
 * others may be waiting. `isBounded`: some wait for a running job to end: one of their caller or model or, for its memory, any.
 */
export function takeJobs(
  database: Pick<ServiceDatabase, 'pool'>,
  worker: Allowance & { requestBytes: number; workerId: string; shiftMs: number },
): Promise<{ jobs: TakenJob[]; isMore: boolean; isBounded: boolean }> {
  return sqlTransaction(database, async (sql) => {
    // One worker after the other, so that bounds and turns are exact across workers.
    await takeAdvisoryLock(sql, 'jobs to take');
    const { rows } = await sql.query<WaitingRow>({ name: 'jobs-waiting', text: waitingAndRunning });
    const waiting = rows.flatMap(({ tenant_id }) => tenant_id ?? []);
    const running = rows
      .filter(({ tenant_id }) => tenant_id === null)
      .map(({ subject_id: subjectId, model, count }) => ({ subjectId, model, count: Number(count) }));
    const choice = await chooseFrom(sql, waiting, running, worker);
    const { isBounded } = choice;
    if (choice.lanes.length === 0) return { jobs: [], isMore: false, isBounded };
    const taken = await sql.query<TakenRow>({
      name: 'jobs-take',
      text: take,
      values: [
        choice.lanes.map(({ tenantId }) => tenantId),
        choice.lanes.map(({ subjectId }) => subjectId),
        choice.lanes.map(({ model }) => model),
        choice.lanes.map(({ slots }) => slots),
        choice.served,
        worker.workerId,
        worker.shiftMs,
        worker.requestBytes,
      ],
    });
    const jobs = taken.rows.map(takenJob);
    const ofLanes = choice.lanes.map((lane) => jobs.filter((job) => isOf(job, lane)));
    const filled = choice.lanes.filter(({ slots }, place) => ofLanes[place]!.length === slots).length;
    // When all are bounded, nothing more can be taken before a running job ends, unless some lane left a slot that others can use.
    const isMore = filled > 0 && !(isBounded && filled === choice.lanes.length);
    const isFull = jobs.reduce((bytes, { requestBytes }) => bytes + requestBytes, 0) >= worker.requestBytes;
    // A model's room goes to the organization whose turn it is.
    return { jobs: ofLanes.flat(), isMore, isBounded: isBounded || isFull };
  });
}

/**
 * What `chooseLanes` chooses from the lanes of these organizations, which are in the order of their turns. Those of later ones are read only
 * if their turn comes: with many callers and models all of them are too many for each look.
 */
async function chooseFrom(
  sql: Sql,
  waiting: readonly string[],
  running: readonly Running[],
  worker: Allowance & { requestBytes: number },
): Promise<Choice> {
  if (waiting.length === 0) return chooseLanes([], running, worker);
  // Without memory for large jobs, lanes that begin with one would take the slots of those that can begin something.
  const isLargeLast = worker.requestBytes <= 0;
  const small: Lane[] = [];
  const large: Lane[] = [];
  for (let from = 0, count = worker.slots; ; from += count, count = Math.min(from, tenantsAtOnceMax)) {
    const { rows } = await sql.query<LaneRow>({
      name: 'jobs-lanes',
      text: lanesOfTenants,
      values: [waiting.slice(from, from + count), isLargeLast],
    });
    for (const { tenant_id: tenantId, subject_id: subjectId, model, is_large: isLarge } of rows)
      (isLarge ? large : small).push({ tenantId, subjectId, model });
    if (from + count >= waiting.length) return chooseLanes([...small, ...large], running, worker);
    const choice = chooseLanes(small, running, worker);
    // Each slot goes to an organization of its own, so that none is left for the others.
    if (choice.served.length >= worker.slots) return choice;
  }
}

const isOf = (job: TakenJob, { subjectId, model }: Lane): boolean => job.subjectId === subjectId && job.model === model;

/** An organization's job was taken but did not run: its next turn comes before those of all that had one. */
export async function returnTurn(database: Pick<ServiceDatabase, 'query'>, tenantId: string): Promise<void> {
  const text = 'delete from served_tenants where tenant_id = $1';
  await database.query({ name: 'jobs-return-turn', text, values: [tenantId] });
}

/** The columns of `take`. */
type TakenRow = {
  tenant_id: string;
  id: string;
  subject_id: string;
  /** Caller in protobuf's binary form; `hold` is a JobHold. */
  caller: Buffer;
  operation: Operation;
  model: string;
  content_type: string;
  request: Buffer | null;
  body_bytes: number;
  fence: bigint;
  attempts: number;
  created_at: Date;
  started_at: Date;
  has_started_before: boolean;
  was_lost: boolean;
  cost_max_nano_usd: bigint;
  cost_min_nano_usd: bigint;
  hold: Buffer;
  left_ms: number;
};

const takenJob = (row: TakenRow): TakenJob => ({
  tenantId: row.tenant_id,
  id: row.id,
  subjectId: row.subject_id,
  caller: fromBinary(CallerSchema, row.caller),
  operation: row.operation,
  model: row.model,
  contentType: row.content_type,
  request: row.request,
  requestBytes: row.body_bytes,
  fence: row.fence,
  attempts: row.attempts,
  createdMs: row.created_at.getTime(),
  startedMs: row.started_at.getTime(),
  hasStartedBefore: row.has_started_before,
  wasLost: row.was_lost,
  leftMs: row.left_ms,
  costMaxNanoUsd: row.cost_max_nano_usd,
  costMinNanoUsd: row.cost_min_nano_usd,
  hold: fromBinary(JobHoldSchema, row.hold),
});
