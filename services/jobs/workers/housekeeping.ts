import { fromBinary } from '@bufbuild/protobuf';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { removeInBatches } from '#shared/db/remove-in-batches.ts';
import { idempotencyMs } from '#shared/idempotency.ts';
import { startRecurringWorks } from '#shared/recurring-work.ts';
import { holdMs, renewHold } from '../budget/holds.ts';
import { type EndedRow, endedColumns, endedJob, returnHold } from '../budget/return-hold.ts';
import { deletedBytesMax } from '../db/bodies.ts';
import { forgetSubmissions } from '../db/submissions-under-way.ts';
import { clockShiftMs, momentSql, presentSql } from '../db/time.ts';
import type { JobsDeps } from '../deps.ts';

type Deps = Pick<JobsDeps, 'database' | 'billing' | 'clock' | 'logger'>;

const everyMs = 60_000;
const removedAtOnce = 500;
const heldAtOnce = 100;
/** Room is renewed when less than this is left of its hour, so that it outlasts an equally long outage of Billing. */
const renewLeftMs = holdMs - 600_000;

/**
 * Removes expired jobs, renews the holds of waiting ones and gives back those of ended ones, each minute and each by itself, so that none
 * waits for another. Several processes may do it at once; what one leaves as it stops, the next one does.
 */
export function startHousekeeping(deps: Deps): { close(): Promise<void> } {
  const { logger } = deps;
  return startRecurringWorks([
    { name: 'the removal of expired jobs', everyMs, round: (signal) => removeExpired(deps, signal), logger },
    { name: "the renewal of waiting jobs' room", everyMs, round: (signal) => renewHolds(deps, signal), logger },
    { name: "the return of ended jobs' room", everyMs, round: (signal) => returnHolds(deps, signal), logger },
  ]);
}

/**
 * Removes jobs whose 24 hours are over, with their results, unless Billing has still to be told of them, and the remembered keys of deleted
 * ones.
 */
export async function removeExpired(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  signal?: AbortSignal,
): Promise<number> {
  const expired = {
    name: 'jobs-remove-expired',
    text: `delete from jobs where (tenant_id, id) in (
      select tenant_id, id from (
        select tenant_id, id, row_number() over by_expiry as place, sum(result_bytes) over by_expiry as bytes
        from (
          select tenant_id, id, expires_at, result_bytes from jobs
          where expires_at <= ${momentSql(1)} and hold_expires_at is null
          order by expires_at limit ${removedAtOnce} for update skip locked
        ) as expired
        window by_expiry as (order by expires_at, id)
      ) as measured
      where place = 1 or bytes <= ${deletedBytesMax})`,
    values: [clockShiftMs(clock)],
  };
  const removed = await removeInBatches(database, expired, signal);
  await database.query({
    name: 'jobs-forget-deleted-keys',
    text: `delete from deleted_job_keys where created_at <= ${momentSql(1)} - interval '${idempotencyMs} milliseconds'`,
    values: [clockShiftMs(clock)],
  });
  await forgetSubmissions(database, clockShiftMs(clock));
  await database.query({ text: `delete from served_tenants where served_at < now() - interval '7 days'`, values: [] });
  return removed;
}

type HeldRow = { tenant_id: string; id: string; hold: Buffer };
const holdOf = ({ hold }: HeldRow): JobHold => fromBinary(JobHoldSchema, hold);

/** Renews the room of jobs that have not ended. Room that Billing no longer holds is requested anew when the job runs. */
export async function renewHolds(
  { database, billing, clock }: Omit<Deps, 'logger'>,
  signal?: AbortSignal,
): Promise<number> {
  const shiftMs = clockShiftMs(clock);
  while (!signal?.aborted && (await turnBack(database, shiftMs)));
  const busy: HeldRow[] = [];
  let renewed = 0;
  try {
    while (!signal?.aborted) {
      // Recorded first, so that no other process renews it, too.
      const { rows } = await database.query<HeldRow>({
        name: 'jobs-renew-holds',
        text: `update jobs set hold_expires_at = ${presentSql(1)} + interval '${holdMs} milliseconds'
          where (tenant_id, id) in (
            select tenant_id, id from jobs where hold_expires_at <= ${momentSql(1)} + interval '${renewLeftMs} milliseconds'
              and status in (${JobStatus.QUEUED}, ${JobStatus.IN_PROGRESS})
            order by hold_expires_at limit ${heldAtOnce} for update skip locked)
          returning tenant_id, id, hold`,
        values: [shiftMs],
      });
      const renewals = await Promise.allSettled(rows.map((row) => renewHold(billing, holdOf(row))));
      const failed = rows.filter((_, place) => renewals[place]!.status === 'rejected');
      if (failed.length > 0) await renewNextRound(database, failed, shiftMs);
      for (const [place, renewal] of renewals.entries()) {
        if (renewal.status === 'fulfilled' && renewal.value === 'busy') busy.push(rows[place]!);
        else renewed += 1;
      }
      for (const renewal of renewals) if (renewal.status === 'rejected') throw renewal.reason;
      if (rows.length < heldAtOnce) break;
    }
  } finally {
    // Only now, or this round would find it due once more.
    if (busy.length > 0) await renewNextRound(database, busy, shiftMs);
  }
  return renewed;
}

/**
 * Room that is held for longer than any can be was taken before the database's clock was set back. It is due now, since Billing ends it in an
 * hour. Returns whether there may be more.
 */
async function turnBack(database: Deps['database'], shiftMs: number): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'jobs-turn-back-holds',
    text: `update jobs set hold_expires_at = ${presentSql(1)}
      where (tenant_id, id) in (
        select tenant_id, id from jobs where hold_expires_at > ${momentSql(1)} + interval '${holdMs + everyMs} milliseconds'
        order by hold_expires_at limit ${heldAtOnce} for update skip locked)`,
    values: [shiftMs],
  });
  return rowCount === heldAtOnce;
}

/** Room that could not be renewed is due again in the next round, after all other: in an hour, new room would long have lapsed. */
async function renewNextRound(database: Deps['database'], rows: readonly HeldRow[], shiftMs: number): Promise<void> {
  await database.query({
    name: 'jobs-renew-next-round',
    text: `update jobs set hold_expires_at = ${presentSql(3)} + interval '${renewLeftMs} milliseconds'
      where (tenant_id, id) in (select * from unnest($1::uuid[], $2::uuid[]))
        and status in (${JobStatus.QUEUED}, ${JobStatus.IN_PROGRESS}) and hold_expires_at is not null`,
    values: [rows.map((row) => row.tenant_id), rows.map((row) => row.id), shiftMs],
  });
}

/**
 * Gives back the room of jobs that ended while Billing could not be told, or whose process died before it told it, and what lost runs of
 * them were charged. A round ends with the first hundred of which some could not be returned: those are tried again in the next one, after
 * all other.
 */
export async function returnHolds(deps: Deps, signal?: AbortSignal): Promise<number> {
  let returned = 0;
  while (!signal?.aborted) {
    const { rows } = await deps.database.query<EndedRow>({
      name: 'jobs-held-after-their-end',
      text: `select ${endedColumns} from jobs
        where hold_expires_at <= ${momentSql(1)} and status not in (${JobStatus.QUEUED}, ${JobStatus.IN_PROGRESS})
        order by hold_expires_at limit ${heldAtOnce}`,
      values: [clockShiftMs(deps.clock)],
    });
    const told = await Promise.all(rows.map((row) => returnHold(deps, endedJob(row))));
    returned += told.filter(Boolean).length;
    const failed = rows.filter((_, place) => !told[place]);
    if (failed.length > 0) await returnNextRound(deps, failed);
    if (rows.length < heldAtOnce || failed.length > 0) break;
  }
  return returned;
}

async function returnNextRound({ database, clock }: Deps, rows: readonly EndedRow[]): Promise<void> {
  await database.query({
    name: 'jobs-return-next-round',
    text: `update jobs set hold_expires_at = ${presentSql(3)}
      where (tenant_id, id) in (select * from unnest($1::uuid[], $2::uuid[])) and hold_expires_at is not null`,
    values: [rows.map((row) => row.tenant_id), rows.map((row) => row.id), clockShiftMs(clock)],
  });
}
