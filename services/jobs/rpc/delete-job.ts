import { fromBinary } from '@bufbuild/protobuf';
import { JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { releaseHold } from '../budget/holds.ts';
import { type EndedRow, endedColumns, endedJob, returnHold } from '../budget/return-hold.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { noSuchJob, requiredJobId, sessionOwnerOf } from './caller.ts';

/** Whether Billing has still to be told that nobody pays for a lost run. */
const isLostSql = '(was_lost and hold_expires_at is not null)';

const notYet = () =>
  gatewayError(
    ErrorReason.OVERLOADED,
    'What this job was charged for an answer that was lost has still to be given back. Try again shortly.',
    { retryAfterMs: 5_000 },
  );

/**
 * Removes an ended job; its Idempotency-Key stays taken for the rest of its 24 hours. A large result that is still being stored for a
 * cancelled job holds this up.
 */
export const deleteJob =
  (deps: Pick<JobsDeps, 'database' | 'billing' | 'clock' | 'logger'>): JobsRpc<'deleteJob'> =>
  async (request, context) => {
    const { database, billing, clock } = deps;
    const { tenantId, userId } = sessionOwnerOf(context);
    const values = [tenantId, userId, requiredJobId(request.jobId), clockShiftMs(clock)];
    const own = `tenant_id = $1 and user_id = $2 and id = $3 and ${unexpiredSql(4)}`;
    const { rows: deleted } = await database.changeTurns.run(tenantId, context.signal, () =>
      database.query<{ hold: Buffer | null }>({
        name: 'jobs-delete',
        text: `with deleted as (
            delete from jobs where ${own} and expires_at is not null and not ${isLostSql}
            returning tenant_id, subject_id, idempotency_key, request_hash, created_at, hold, hold_expires_at
          ), remembered as (
            insert into deleted_job_keys
            select tenant_id, subject_id, idempotency_key, request_hash, created_at from deleted where idempotency_key is not null
            on conflict (tenant_id, subject_id, idempotency_key) do update
              set request_hash = excluded.request_hash, created_at = excluded.created_at
          )
          select case when hold_expires_at is not null then hold end as hold from deleted`,
        values,
      }),
    );
    if (deleted.length === 1) {
      // Room that could not be given back at the job's end: nothing else tells of it any more.
      const { hold } = deleted[0]!;
      if (hold !== null) await releaseHold(billing, fromBinary(JobHoldSchema, hold));
      return {};
    }
    const { rows } = await database.query<EndedRow & { has_ended: boolean; is_lost: boolean }>({
      name: 'jobs-exists',
      text: `select ${endedColumns}, expires_at is not null as has_ended, ${isLostSql} as is_lost from jobs where ${own}`,
      values,
    });
    const [left] = rows;
    if (left === undefined) throw noSuchJob();
    if (!left.has_ended) {
      throw gatewayError(ErrorReason.CONFLICT, 'A job can only be deleted once it has ended. Cancel it first.');
    }
    if (left.is_lost && !(await returnHold(deps, endedJob(left)))) throw notYet();
    return deleteJob(deps)(request, context);
  };
