import { create } from '@bufbuild/protobuf';
import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { BudgetKind, type Lease, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { GatewayError } from '#shared/errors.ts';
import { publicJobId, uuidv7 } from '#shared/ids.ts';
import { budgetsByNoRoomReason } from '#shared/no-room.ts';
import { type Caller, callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { outOfReachIfLate } from '#shared/rpc/connect-errors.ts';
import type { HoldingBilling } from '../deps.ts';

/** How long room that was renewed is held without another renewal, in milliseconds. */
export const holdMs = 3_600_000;
/**
 * How long new room is held, in milliseconds. It is renewed within a minute once its job's row tells of it; if that row cannot be written,
 * nobody may be left to give the room back.
 */
export const newHoldMs = 300_000;

const timeToLive = (ms: number) => ({ seconds: BigInt(ms / 1000) });
const options = (requestId = '') => ({
  contextValues: callerContext({ ...serviceCaller('jobs'), requestId }),
  timeoutMs: 3_000,
});

/** The most that a job may cost, and who pays. */
type JobCost = {
  jobId: string;
  caller: Pick<Caller, 'tenantId' | 'userId' | 'apiKeyId'> & Partial<Pick<Caller, 'requestId'>>;
  /** The key's daily cap; undefined: none, or no key. */
  spendCapNanoUsd: bigint | undefined;
  costMaxNanoUsd: bigint;
  costMinNanoUsd: bigint;
  /** The event for the job's success, if an earlier run may have had it: once that is charged, the job needs no room. */
  usageEventId?: string;
};

/**
 * Holds the largest cost of a job in every budget that limits its caller. Rejects with one of `budgetsByNoRoomReason`, that of the first
 * budget without room, and then holds nothing. If there is no answer, the room is given up.
 */
export async function takeHold(billing: HoldingBilling, job: JobCost): Promise<JobHold> {
  if (job.costMaxNanoUsd === 0n) return noHold(job.jobId);
  const { tenantId, userId, apiKeyId, requestId } = job.caller;
  const ofKey = apiKeyId !== '' && job.spendCapNanoUsd !== undefined;
  const demands = [
    ...(ofKey ? [{ kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: job.spendCapNanoUsd }] : []),
    { kind: BudgetKind.USER, leaseId: uuidv7() },
    { kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() },
  ];
  const asking = billing.lease(
    {
      holderId: job.jobId,
      tenantId,
      userId,
      apiKeyId: ofKey ? apiKeyId : '',
      costMaxNanoUsd: job.costMaxNanoUsd,
      costMinNanoUsd: job.costMinNanoUsd,
      timeToLive: timeToLive(newHoldMs),
      demands,
      usageEventId: job.usageEventId ?? '',
    },
    // Billing logs a refusal as well.
    options(requestId),
  );
  const answer = await asking.catch((error) => {
    const leases = demands.map(({ leaseId }) => ({ leaseId, fencingToken: 1n }));
    const isRefused = error instanceof GatewayError && budgetsByNoRoomReason.has(error.reason);
    if (!isRefused) void releaseHold(billing, create(JobHoldSchema, { holderId: job.jobId, leases }));
    throw outOfReachIfLate(error);
  });
  const leases = answer.leases
    .filter(({ unlimited }) => !unlimited)
    .map(({ id, fencingToken }) => ({ leaseId: id, fencingToken }));
  if (leases.length === 0) return noHold(job.jobId);
  return create(JobHoldSchema, { holderId: job.jobId, leases, costAllowedNanoUsd: answer.costAllowedNanoUsd });
}

/**
 * Whether an earlier run of a job without any room was charged: its worker died before it could report its success. Its call then needs no
 * room, as the event for its success is the same.
 */
export async function isCharged(
  billing: HoldingBilling,
  { jobId, caller, usageEventId }: Pick<JobCost, 'jobId' | 'caller'> & { usageEventId: string },
): Promise<boolean> {
  const { tenantId, userId, requestId } = caller;
  const asked = { holderId: jobId, tenantId, userId, usageEventId, demands: [] };
  return (await billing.lease(asked, options(requestId))).isCharged;
}

/**
 * Sees to it that nobody pays for the event of a job that ended without the answer: it may have been charged, or may still come. The job's
 * room is free then. Rejects with OVERLOADED if Billing cannot be told now.
 */
export async function voidCharge(
  billing: HoldingBilling,
  job: { tenantId: string; id: string; hold: JobHold; eventId: string },
): Promise<void> {
  const { tenantId, eventId: usageEventId } = job;
  const description = `${publicJobId(job.id)} has no result: what its call was charged is given back.`;
  const leaseIds = job.hold.leases.map(({ leaseId }) => leaseId);
  await billing.voidCharge({ tenantId, usageEventId, description, leaseIds }, options()).catch((error) => {
    throw outOfReachIfLate(error);
  });
}

/** For a job that nothing limits. */
const noHold = (jobId: string): JobHold => create(JobHoldSchema, { holderId: jobId });

/**
 * The state of a job's room: held; `busy`, held only until when it was; `used` by a successful run of the job, whose charge Billing has or
 * will get; or `lost`.
 */
type HoldState = 'held' | 'busy' | 'used' | 'lost';

/** Renews a job's room, if it has any. */
export async function renewHold(billing: HoldingBilling, { holderId, leases }: JobHold): Promise<HoldState> {
  const settlements = leases.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken, keep: true }));
  const { leases: settled } = await billing.settle(
    { holderId, settlements, timeToLive: timeToLive(holdMs) },
    options(),
  );
  if (settled.every(({ state }) => state === LeaseState.HELD)) {
    return settled.some(({ lease }) => lease !== undefined && wasBusy(lease)) ? 'busy' : 'held';
  }
  return settled.some((lease) => lease.state === LeaseState.CLOSED && lease.usedNanoUsd > 0n) ? 'used' : 'lost';
}

/** Whether a lease was not renewed just now, although its budget's period goes on. */
const wasBusy = ({ timeToLive, expiresAt, resetsAt }: Lease): boolean =>
  timeToLive !== undefined &&
  durationMs(timeToLive) < holdMs - 60_000 &&
  (resetsAt === undefined || timestampMs(expiresAt!) < timestampMs(resetsAt));

/**
 * Gives back room that no call will use. False when Billing could not be told: it will be, while this process lives, or else the room lapses.
 * Never rejects.
 */
export async function releaseHold(billing: HoldingBilling, { holderId, leases }: JobHold): Promise<boolean> {
  if (leases.length === 0) return true;
  const told = leases.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken }));
  return billing.releaseHold({ holderId, leases: told }, options()).then(
    () => true,
    () => false,
  );
}
