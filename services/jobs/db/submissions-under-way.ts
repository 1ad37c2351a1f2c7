import type { ServiceDatabase } from '#shared/db/orm.ts';
import { predatesSetBackSql, presentSql } from './time.ts';

/** A submission with an Idempotency-Key. */
type Keyed = { tenantId: string; subjectId: string; idempotencyKey: string };
type Database = Pick<ServiceDatabase, 'query'>;

/** How long a submission is waited for, in milliseconds: Billing has three seconds to answer. Then its process may be gone. */
const underWayMsMax = 5_000;

/** Whether one that was begun then may still be under way; the parameter with this number is clockShiftMs. */
const isUnderWaySql = (parameter: number): string =>
  `(known.begun_at > ${presentSql(parameter)} - interval '${underWayMsMax} milliseconds'
    and not ${predatesSetBackSql('known.begun_at', parameter, underWayMsMax)})`;

/** Tells all processes that a submission is about to become the job with this id; false if the same one is under way already. */
export async function beginSubmission(
  database: Database,
  { tenantId, subjectId, idempotencyKey }: Keyed,
  jobId: string,
  shiftMs: number,
): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'jobs-begin-submission',
    text: `insert into submissions_under_way as known (tenant_id, subject_id, idempotency_key, job_id, begun_at)
      values ($1, $2, $3, $4, ${presentSql(5)})
      on conflict (tenant_id, subject_id, idempotency_key) do update
        set job_id = excluded.job_id, begun_at = excluded.begun_at where not ${isUnderWaySql(5)}`,
    values: [tenantId, subjectId, idempotencyKey, jobId, shiftMs],
  });
  return rowCount === 1;
}

export async function isSubmissionUnderWay(
  database: Database,
  { tenantId, subjectId, idempotencyKey }: Keyed,
  shiftMs: number,
): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'jobs-is-submission-under-way',
    text: `select from submissions_under_way as known
      where tenant_id = $1 and subject_id = $2 and idempotency_key = $3 and ${isUnderWaySql(4)}`,
    values: [tenantId, subjectId, idempotencyKey, shiftMs],
  });
  return rowCount === 1;
}

/** The submission became no job. Never rejects: it is not waited for forever. */
export async function abandonSubmission(database: Database, jobId: string, keyed: Keyed): Promise<void> {
  const abandoned = {
    name: 'jobs-abandon-submission',
    text: `delete from submissions_under_way
      where tenant_id = $1 and subject_id = $2 and idempotency_key = $3 and job_id = $4`,
    values: [keyed.tenantId, keyed.subjectId, keyed.idempotencyKey, jobId],
  };
  await database.query(abandoned).catch(() => {});
}

/** Forgets submissions whose processes died. */
export async function forgetSubmissions(database: Database, shiftMs: number): Promise<void> {
  await database.query({
    text: `delete from submissions_under_way as known where not ${isUnderWaySql(1)}`,
    values: [shiftMs],
  });
}
