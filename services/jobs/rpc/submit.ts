import { isUniqueViolation } from '#shared/db/errors.ts';
import { idempotencyKeyReused, idempotencyMs } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { releaseHold, takeHold } from '../budget/holds.ts';
import { insertJob } from '../db/insert-job.ts';
import { type JobRow, jobMessage } from '../db/job-rows.ts';
import { clockShiftMs, presentSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { requestHash } from '../domain/request-hash.ts';
import { ownerOf } from './caller.ts';
import { readJob } from './get-job.ts';

/** Queues an admitted call, with its cost held in its caller's budgets. */
export const submit =
  (deps: JobsDeps): JobsRpc<'submit'> =>
  async (request, context) => {
    const { billing, clock } = deps;
    const caller = ownerOf(context);
    const subjectId = caller.apiKeyId || caller.userId;
    const hash = request.idempotencyKey === '' ? null : requestHash(request);
    const replayed = async () => {
      const { tenantId, userId } = caller;
      const earlierId = await submittedBefore(deps, tenantId, subjectId, request.idempotencyKey, hash!);
      if (earlierId === undefined) return undefined;
      return { job: await readJob(deps, { tenantId, userId, id: earlierId }), replayed: true };
    };
    const before = hash === null ? undefined : await replayed();
    if (before !== undefined) return before;

    const id = uuidv7();
    const held = await takeHold(billing, {
      jobId: id,
      caller,
      spendCapNanoUsd: request.constraints?.spendCapNanoUsd,
      costMaxNanoUsd: request.costMaxNanoUsd,
      costMinNanoUsd: request.costMinNanoUsd,
    });
    try {
      const job = { id, subjectId, caller, request, requestHash: hash, held };
      const row = await insertJob(deps, job, clockShiftMs(clock), context.signal);
      deps.wakeWorkers();
      return { job: jobMessage(row), replayed: false };
    } catch (error) {
      await releaseHold(billing, held);
      // The same submission came twice at once, and the other one was quicker.
      const other = isUniqueViolation(error, 'jobs_by_idempotency_key') ? await replayed() : undefined;
      if (other !== undefined) return other;
      throw error;
    }
  };

type Submitted = Pick<JobRow, 'id'> & { request_hash: Buffer; is_recent: boolean };

/** The id of the job of an earlier submission under the same Idempotency-Key; once its time is over the key is free again. */
async function submittedBefore(
  { database, clock }: Pick<JobsDeps, 'database' | 'clock'>,
  tenantId: string,
  subjectId: string,
  key: string,
  hash: Buffer,
): Promise<string | undefined> {
  const { rows } = await database.query<Submitted>({
    name: 'jobs-submitted-before',
    text: `select id, request_hash, created_at > ${presentSql(4)} - interval '${idempotencyMs} milliseconds' as is_recent
      from jobs where tenant_id = $1 and subject_id = $2 and idempotency_key = $3`,
    values: [tenantId, subjectId, key, clockShiftMs(clock)],
  });
  const [earlier] = rows;
  if (earlier === undefined) return undefined;
  if (!earlier.is_recent) {
    await database.query({
      name: 'jobs-free-idempotency-key',
      text: 'update jobs set idempotency_key = null where tenant_id = $1 and id = $2',
      values: [tenantId, earlier.id],
    });
    return undefined;
  }
  if (!earlier.request_hash.equals(hash)) throw idempotencyKeyReused();
  return earlier.id;
}
