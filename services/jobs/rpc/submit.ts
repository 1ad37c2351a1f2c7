import { setTimeout as delay } from 'node:timers/promises';
import type { HandlerContext } from '@connectrpc/connect';
import type { Job } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { FindSubmittedRequest, SubmitRequest } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import type { JobHold } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { isUniqueViolation } from '#shared/db/errors.ts';
import { ErrorReason, gatewayError, hasReason } from '#shared/errors.ts';
import { idempotencyKeyReused, idempotencyMs } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { turnsByName } from '#shared/turns-by-name.ts';
import { releaseHold, takeHold } from '../budget/holds.ts';
import { insertJob } from '../db/insert-job.ts';
import { jobMessage } from '../db/job-rows.ts';
import { abandonSubmission, beginSubmission, isSubmissionUnderWay } from '../db/submissions-under-way.ts';
import { clockShiftMs, presentSql } from '../db/time.ts';
import type { JobsDeps, JobsRpc } from '../deps.ts';
import { requestHash } from '../domain/request-hash.ts';
import { ownerOf } from './caller.ts';
import { readJob } from './get-job.ts';

/** What concerns one Idempotency-Key of a sender is done one after the other. */
type SubmissionTurns = { inTurn<Result>(repeat: Repeat, work: () => Promise<Result>): Promise<Result> };

export function submissionTurns(): SubmissionTurns {
  const turns = turnsByName(1);
  return {
    inTurn: ({ request: { idempotencyKey }, caller, subjectId, signal }, work) =>
      idempotencyKey === '' ? work() : turns.run(`${caller.tenantId} ${subjectId} ${idempotencyKey}`, signal, work),
  };
}

/** Queues an admitted call, with its cost held in its caller's budgets. */
export const submit =
  (deps: JobsDeps, { inTurn }: SubmissionTurns): JobsRpc<'submit'> =>
  (request, context) => {
    const submission = { request, ...senderOf(context) };
    // A repeat that asked for room in parallel with the first could be refused, although its job is queued.
    return inTurn(submission, () => submitJob(deps, submission));
  };

/** The job of an earlier submission, also of one under way, if there is one: the answer to a repeat that is not admitted any more. */
export const findSubmitted =
  (deps: JobsDeps, { inTurn }: SubmissionTurns): JobsRpc<'findSubmitted'> =>
  async (request, context) => {
    const repeat = { request, ...senderOf(context) };
    const found = await inTurn(repeat, () => awaited(deps, repeat, requestHash(request)));
    return { job: found?.job };
  };

/** Who sends a submission. An Idempotency-Key is the subject's: the API key's, or the user's in a session. */
type Sender = { caller: Caller; subjectId: string; signal: AbortSignal };

function senderOf(context: Pick<HandlerContext, 'values' | 'signal'>): Sender {
  const caller = ownerOf(context);
  return { caller, subjectId: caller.apiKeyId || caller.userId, signal: context.signal };
}

/** What tells an earlier submission: a repeat does not need the rest. */
type Repeat = Sender & { request: FindSubmittedRequest | SubmitRequest };
type Submission = Repeat & { request: SubmitRequest };

type Submitted = { job: Job; replayed: boolean };

async function submitJob(deps: JobsDeps, submission: Submission): Promise<Submitted> {
  const { database, billing, clock } = deps;
  const { request, caller, subjectId, signal } = submission;
  const hash = request.idempotencyKey === '' ? null : requestHash(request);
  const id = uuidv7();
  const before = await begun(deps, submission, id, hash);
  if (before !== undefined) return before;

  let held: JobHold | undefined;
  try {
    held = await takeHold(billing, {
      jobId: id,
      caller,
      spendCapNanoUsd: request.constraints?.spendCapNanoUsd,
      costMaxNanoUsd: request.costMaxNanoUsd,
      costMinNanoUsd: request.costMinNanoUsd,
    });
    const job = { id, subjectId, caller, request, requestHash: hash, held };
    const row = await insertJob(deps, job, clockShiftMs(clock), signal);
    deps.wakeWorkers();
    return { job: jobMessage(row), replayed: false };
  } catch (error) {
    if (held !== undefined) await releaseHold(billing, held);
    if (hash !== null) await abandonSubmission(database, id, keyOf(submission));
    // The same submission reached another process before, which queued its job meanwhile: it has the room, or the last place in the queue.
    const isLate =
      held === undefined ||
      hasReason(error, ErrorReason.RATE_LIMITED) ||
      isUniqueViolation(error, 'jobs_by_idempotency_key');
    const other = isLate ? await replayed(deps, submission, hash) : undefined;
    if (other !== undefined) return other;
    throw error;
  }
}

/** How often to look whether a submission at another process is still under way, in milliseconds. */
const lookAgainMs = 50;

/**
 * The job of an earlier submission, also of one under way at another process; undefined once this one is under way itself. `hash` is null
 * without a key.
 */
async function begun(
  deps: JobsDeps,
  submission: Submission,
  id: string,
  hash: Buffer | null,
): Promise<Submitted | undefined> {
  const { database, clock } = deps;
  if (hash === null) return undefined;
  for (;;) {
    const before = await replayed(deps, submission, hash);
    if (before !== undefined) return before;
    if (await beginSubmission(database, keyOf(submission), id, clockShiftMs(clock))) return undefined;
    await delay(lookAgainMs, undefined, { signal: submission.signal });
  }
}

/** The job of an earlier submission, also of one under way at another process, if there is one. */
async function awaited(deps: JobsDeps, repeat: Repeat, hash: Buffer): Promise<Submitted | undefined> {
  const { database, clock } = deps;
  for (;;) {
    const isUnderWay = await isSubmissionUnderWay(database, keyOf(repeat), clockShiftMs(clock));
    const before = await replayed(deps, repeat, hash);
    if (before !== undefined || !isUnderWay) return before;
    await delay(lookAgainMs, undefined, { signal: repeat.signal });
  }
}

const keyOf = ({ request: { idempotencyKey }, caller: { tenantId }, subjectId }: Repeat) => ({
  tenantId,
  subjectId,
  idempotencyKey,
});

/** The job of an earlier submission with the same Idempotency-Key, if there is one. `hash` is null without a key. */
async function replayed(deps: JobsDeps, submission: Repeat, hash: Buffer | null): Promise<Submitted | undefined> {
  if (hash === null) return undefined;
  const id = await submittedBefore(deps, submission, hash);
  if (id === undefined) return undefined;
  const { request, caller, signal } = submission;
  const { tenantId, userId } = caller;
  const job = await readJob(deps, { tenantId, userId, id }, { resultBytesMax: request.resultBytesMax, signal });
  return { job, replayed: true };
}

/** `id` is null when the job was deleted. */
type EarlierRow = { id: string | null; request_hash: Buffer; is_recent: boolean };

/**
 * The id of the job of an earlier submission with the same Idempotency-Key, until the key expires. Rejects with NOT_FOUND when the job was
 * deleted.
 */
async function submittedBefore(
  { database, clock }: Pick<JobsDeps, 'database' | 'clock'>,
  { request, caller: { tenantId }, subjectId }: Repeat,
  hash: Buffer,
): Promise<string | undefined> {
  const { rows } = await database.query<EarlierRow>({
    name: 'jobs-submitted-before',
    text: `select id, request_hash, created_at > ${presentSql(4)} - interval '${idempotencyMs} milliseconds' as is_recent
      from (
        select id, request_hash, created_at from jobs
          where tenant_id = $1 and subject_id = $2 and idempotency_key = $3
        union all
        select null, request_hash, created_at from deleted_job_keys
          where tenant_id = $1 and subject_id = $2 and idempotency_key = $3
      ) as submitted order by created_at desc limit 1`,
    values: [tenantId, subjectId, request.idempotencyKey, clockShiftMs(clock)],
  });
  const [earlier] = rows;
  if (earlier === undefined) return undefined;
  if (!earlier.is_recent) {
    if (earlier.id === null) return undefined;
    await database.query({
      name: 'jobs-free-idempotency-key',
      text: 'update jobs set idempotency_key = null where tenant_id = $1 and id = $2',
      values: [tenantId, earlier.id],
    });
    return undefined;
  }
  if (!earlier.request_hash.equals(hash)) throw idempotencyKeyReused();
  if (earlier.id === null) throw deletedJob();
  return earlier.id;
}

/** Not a conflict: SDKs would repeat the submission (openai-contract.md section 2). */
const deletedJob = () =>
  gatewayError(
    ErrorReason.NOT_FOUND,
    'The job submitted with this Idempotency-Key has been deleted. Use a new one to submit another job.',
    { param: 'Idempotency-Key' },
  );
