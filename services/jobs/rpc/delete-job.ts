import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { clockShiftMs, unexpiredSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { noSuchJob, requiredJobId, sessionOwnerOf } from './caller.ts';

/**
 * Removes an ended job; its Idempotency-Key stays taken for the rest of its 24 hours. A large result that is still being stored for a
 * cancelled job holds this up.
 */
export const deleteJob =
  ({ database, clock }: Pick<JobsDeps, 'database' | 'clock'>): JobsRpc<'deleteJob'> =>
  async ({ jobId }, context) => {
    const { tenantId, userId } = sessionOwnerOf(context);
    const values = [tenantId, userId, requiredJobId(jobId), clockShiftMs(clock)];
    const own = `tenant_id = $1 and user_id = $2 and id = $3 and ${unexpiredSql(4)}`;
    const { rowCount } = await database.changeTurns.run(tenantId, () =>
      database.query({
        name: 'jobs-delete',
        text: `with deleted as (
            delete from jobs where ${own} and expires_at is not null
            returning tenant_id, subject_id, idempotency_key, request_hash, created_at
          ), remembered as (
            insert into deleted_job_keys select * from deleted where idempotency_key is not null
            on conflict (tenant_id, subject_id, idempotency_key) do update
              set request_hash = excluded.request_hash, created_at = excluded.created_at
          )
          select from deleted`,
        values,
      }),
    );
    if (rowCount === 1) return {};
    const { rows } = await database.query({ name: 'jobs-exists', text: `select 1 from jobs where ${own}`, values });
    if (rows.length === 0) throw noSuchJob();
    throw gatewayError(ErrorReason.CONFLICT, 'A job can only be deleted once it has ended. Cancel it first.');
  };
