import { clone, create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { ErrorDetail } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  type InferenceService,
  type InvokeEnd,
  InvokeRequestSchema,
  type JobHold,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { timerMsMax } from '#shared/clock.ts';
import { databaseError } from '#shared/db/errors.ts';
import { errorCode } from '#shared/error-table.ts';
import { ErrorReason, GatewayError, gatewayError, internalError } from '#shared/errors.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { budgetsByNoRoomReason, isHeldByOthers } from '#shared/no-room.ts';
import type { RepeatedFailures } from '#shared/repeated-failures.ts';
import { CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { toErrorDetail } from '#shared/rpc/connect-errors.ts';
import { isCharged, releaseHold, renewHold, takeHold } from '../budget/holds.ts';
import type { Ending } from '../db/end-jobs.ts';
import type { TakenJob } from '../db/take-jobs.ts';
import type { HoldingBilling } from '../deps.ts';
import { attemptsMax, backoffMs, isRetried, isUncalled, unmeteredReasons } from '../domain/retry.ts';
import { successEventId } from '../domain/success-event.ts';
import type { CurrentCaller } from './current-callers.ts';

export type RunJobDeps = {
  inference: Pick<Client<typeof InferenceService>, 'invoke'>;
  billing: HoldingBilling;
  /** Told of what keeps jobs from running, other than decisions about their callers. */
  faults: Pick<RepeatedFailures, 'failed'>;
  /** In [0, 1). */
  random(): number;
};

/** What a run needs from its worker, obtained when the run gets to it. */
export type JobInputs = {
  caller: Promise<CurrentCaller>;
  body(): Promise<Uint8Array>;
  /** Records new room before it is used; false when the worker no longer holds the job. */
  saveHold(hold: JobHold): Promise<boolean>;
};

/** The outcome of a run. `unused` is room to give back after the job has ended: until then another run may use it. */
export type RunOutcome =
  | { kind: 'ended'; ending: Ending; unused?: JobHold }
  /** It goes back into the queue; it counts as an attempt if a call was made. */
  | { kind: 'again'; delayMs: number; countsAsAttempt: boolean }
  /** No deployment accepted its call: it keeps its place in the queue. */
  | { kind: 'refused' }
  /** It was cancelled, or another worker has it. */
  | { kind: 'left' };

/** Refusals that are decisions about the caller, made between the submission and the call. */
const refusals: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.INVALID_API_KEY,
  ErrorReason.EXPIRED_API_KEY,
  ErrorReason.INVALID_TOKEN,
  ErrorReason.TENANT_SUSPENDED,
  ErrorReason.MISSING_SCOPE,
  ...budgetsByNoRoomReason.keys(),
]);

const tooLate = () =>
  gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'The job did not end within 24 hours of its submission.');
const givenUp = () =>
  gatewayError(ErrorReason.INTERNAL, 'The job was given up: the workers that ran it stopped before it was finished.');

/** How long a job waits for a part of the gateway that is out of reach, in milliseconds. */
const outOfReachMs = 5_000;
/**
 * How long one waits for room that others hold: as long as it has waited for its start, within these bounds, since thousands may wait for
 * that of one caller.
 */
const heldByOthersMs = { min: 1_000, max: 30_000 };

/**
 * A worker may hear of a model, or of a grant, up to a second after the edge that admitted a job: how old one that fails for it must be, and
 * how long a newer one waits, in milliseconds.
 */
const modelNewsMs = { max: 2_000, again: 1_000 };

/**
 * Runs a job once: as its caller, if that may still make the call, and with the room held for it. Never rejects. When `signal` aborts, the
 * job is left and its upstream aborted.
 */
export async function runJob(
  deps: RunJobDeps,
  job: TakenJob,
  inputs: JobInputs,
  signal: AbortSignal,
): Promise<RunOutcome> {
  const over = job.leftMs <= 0 ? tooLate() : job.attempts > attemptsMax ? givenUp() : null;
  if (over !== null) return failed(over, job.hold);
  let hold = job.hold;
  let isInvoked = false;
  try {
    const caller = await inputs.caller;
    caller.requireScope(job.operation);
    const held = await heldRoom(deps.billing, job, caller, inputs);
    if (held === 'left') return { kind: 'left' };
    hold = held ?? job.hold;
    const body = await inputs.body();
    isInvoked = true;
    return { kind: 'ended', ending: await invoke(deps, job, { caller, hold: held, body }, signal) };
  } catch (thrown) {
    if (signal.aborted) return { kind: 'left' };
    const known = databaseError(thrown);
    const error = known instanceof GatewayError ? known : internalError(known);
    const wasCalled = isInvoked && error.reason !== ErrorReason.BUDGETS_OUT_OF_REACH && !isHeldByOthers(error);
    return wasCalled ? afterCall(deps, job, error, hold) : beforeCall(deps, job, error, hold);
  }
}

/**
 * The room held since the submission, or new room. That is needed if nobody renewed the first for long, or if nothing limited the job at
 * its submission, since a limit may have been set meanwhile. 'left' when the worker no longer holds the job.
 *
 * Undefined for a job that cost nothing then: its model may have a price by now, which only the call knows, so the call holds its room.
 *
 * An earlier run may have succeeded, and its worker died before it could report that. If it used the room up, or was charged without any,
 * this run needs no other: the event for its success is the same, and charged once.
 */
async function heldRoom(
  billing: HoldingBilling,
  job: TakenJob,
  caller: CurrentCaller,
  inputs: JobInputs,
): Promise<JobHold | 'left' | undefined> {
  const usageEventId = job.wasLost ? successEventId(job.id, job.startedMs) : '';
  if (job.costMaxNanoUsd === 0n) {
    const wasCharged =
      usageEventId !== '' && (await isCharged(billing, { jobId: job.id, caller: job.caller, usageEventId }));
    return wasCharged ? job.hold : undefined;
  }
  const hadRoom = job.hold.leases.length > 0;
  if (hadRoom) {
    if ((await renewHold(billing, job.hold)) !== 'lost') return job.hold;
    // One budget may have let it lapse, and the others have just held theirs for another hour.
    await releaseHold(billing, job.hold);
  }
  const anew = await takeHold(billing, {
    jobId: job.id,
    caller: job.caller,
    spendCapNanoUsd: caller.constraints.spendCapNanoUsd,
    costMaxNanoUsd: job.costMaxNanoUsd,
    costMinNanoUsd: job.costMinNanoUsd,
    usageEventId,
  });
  if (!hadRoom && anew.leases.length === 0) return job.hold;
  let isSaved = false;
  try {
    isSaved = await inputs.saveHold(anew);
  } finally {
    if (!isSaved) await releaseHold(billing, anew);
  }
  return isSaved ? anew : 'left';
}

async function invoke(
  { inference }: RunJobDeps,
  job: TakenJob,
  given: { caller: CurrentCaller; hold: JobHold | undefined; body: Uint8Array },
  signal: AbortSignal,
): Promise<Ending> {
  // Not AbortSignal.timeout: in AbortSignal.any it would take memory for the whole 24 hours.
  const late = new AbortController();
  const deadline = setTimeout(() => late.abort(), Math.min(job.leftMs, timerMsMax));
  const caller = clone(CallerSchema, job.caller);
  caller.role = given.caller.role;
  const parts = inference.invoke(
    create(InvokeRequestSchema, {
      operation: job.operation,
      body: given.body,
      contentType: job.contentType,
      constraints: given.caller.constraints,
      jobId: job.id,
      hold: given.hold,
      eventId: successEventId(job.id, job.startedMs),
      unmeteredReasons: unmeteredReasons(job.attempts),
    }),
    { signal: AbortSignal.any([signal, late.signal]), contextValues: callerContext(caller) },
  );
  let first: Uint8Array | undefined;
  const gathered = new GrowingBuffer();
  let contentType = '';
  let end: InvokeEnd | undefined;
  try {
    for await (const part of parts) {
      if (part.head !== undefined) contentType = part.head.contentType;
      end = part.end ?? end;
      if (part.body.byteLength === 0) continue;
      // An answer that comes in one piece may be long, and is not copied.
      if (first === undefined) first = part.body;
      else {
        if (gathered.length === 0) gathered.appendWhole(asBuffer(first));
        gathered.appendWhole(asBuffer(part.body));
      }
    }
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    throw tooLate();
  } finally {
    clearTimeout(deadline);
  }
  if (end?.success !== true) {
    throw gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed before its answer was complete.');
  }
  const body = gathered.length === 0 && first !== undefined ? first : gathered.take();
  return { status: JobStatus.COMPLETED, contentType, body, usage: end.usage };
}

/** Nothing was called. Only a decision about the caller ends the job, neither room that others hold nor anything that went wrong. */
function beforeCall({ faults }: RunJobDeps, job: TakenJob, error: GatewayError, hold: JobHold): RunOutcome {
  if (isHeldByOthers(error)) {
    const delayMs = Math.min(Math.max(job.startedMs - job.createdMs, heldByOthersMs.min), heldByOthersMs.max);
    return { kind: 'again', delayMs, countsAsAttempt: false };
  }
  if (refusals.has(error.reason)) return failed(error, hold);
  faults.failed(error, 'failed; they are tried again until their 24 hours are over');
  return { kind: 'again', delayMs: outOfReachMs, countsAsAttempt: false };
}

/** The call failed, or no deployment accepted it; its room is still held. */
function afterCall({ random }: RunJobDeps, job: TakenJob, error: GatewayError, hold: JobHold): RunOutcome {
  if (isUncalled(error)) return { kind: 'refused' };
  // It may have succeeded at the last moment.
  if (error.reason === ErrorReason.DEADLINE_EXCEEDED) return failed(error, hold, { isLost: true });
  const isNew = !job.hasStartedBefore && job.startedMs - job.createdMs < modelNewsMs.max;
  if (isNew && error.reason === ErrorReason.MODEL_NOT_FOUND)
    return { kind: 'again', delayMs: modelNewsMs.again, countsAsAttempt: false };
  if (!isRetried(error, job.attempts)) return failed(error, hold);
  const delayMs = backoffMs(job.attempts, random(), error.details.retryAfterMs);
  return delayMs < job.leftMs ? { kind: 'again', delayMs, countsAsAttempt: true } : failed(error, hold);
}

const failed = (error: GatewayError, unused: JobHold, lost: { isLost?: true } = {}): RunOutcome => ({
  kind: 'ended',
  ending: { status: JobStatus.FAILED, error: errorOfJob(error), ...lost },
  unused,
});

/** As the synchronous call would have reported it, but without a time to try again, since nobody is waiting. */
const errorOfJob = (error: GatewayError): ErrorDetail =>
  toErrorDetail(
    gatewayError(error.reason, error.message, {
      param: error.details.param,
      upstream: error.details.upstream,
      code: errorCode(error) ?? undefined,
    }),
  );
