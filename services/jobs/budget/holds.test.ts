import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ReleaseHoldResponseSchema, SettleResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { HoldingBilling } from '../deps.ts';
import { renewHold, takeHold, voidCharge } from './holds.ts';

const { HELD, CLOSED, LAPSED } = LeaseState;
const held = { state: HELD };
const used = { state: CLOSED, usedNanoUsd: 1n };
const returned = { state: CLOSED };
const lapsed = { state: LAPSED };
const unasked = () => Promise.reject(new Error('not asked for here'));

test.each([
  ['held while every budget holds it', 'held', [held, held]],
  ['lost when one of its budgets no longer holds it', 'lost', [held, lapsed]],
  ['used when a run of the job used it, though one budget had let it lapse', 'used', [lapsed, used]],
  ['lost when it was returned unused', 'lost', [returned, returned]],
])('room is %s', async (_, state, leases) => {
  const billing: HoldingBilling = {
    lease: unasked,
    releaseHold: unasked,
    settle: async () => create(SettleResponseSchema, { leases }),
    voidCharge: unasked,
  };
  expect(await renewHold(billing, create(JobHoldSchema))).toBe(state);
});

test.each([
  ['given up when there is no answer', ErrorReason.OVERLOADED, true],
  ['left alone when it was refused', ErrorReason.SPEND_CAP_EXCEEDED, false],
])('room is %s', async (_, reason, isGivenUp) => {
  const demanded: unknown[] = [];
  const givenUp: unknown[] = [];
  const billing: HoldingBilling = {
    async lease({ demands }) {
      demanded.push(...demands!.map(({ leaseId }) => leaseId));
      throw gatewayError(reason, 'no');
    },
    async releaseHold({ leases }) {
      givenUp.push(...leases!.map(({ leaseId }) => leaseId));
      return create(ReleaseHoldResponseSchema);
    },
    settle: unasked,
    voidCharge: unasked,
  };
  const caller = { tenantId: 'tenant', userId: 'user', apiKeyId: '' };
  const job = { jobId: 'job', caller, spendCapNanoUsd: undefined, costMaxNanoUsd: 1n, costMinNanoUsd: 0n };
  await expect(takeHold(billing, job)).rejects.toMatchObject({ reason });
  expect(givenUp).toEqual(isGivenUp ? demanded : []);
});

test('a Billing that does not answer in time is away, as one that cannot be reached: not each job whose charge is to be voided tells of it', async () => {
  const late = () => Promise.reject(gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'too late'));
  const billing: HoldingBilling = { lease: unasked, releaseHold: unasked, settle: unasked, voidCharge: late };
  const voiding = voidCharge(billing, { tenantId: 'tenant', id: 'job', hold: create(JobHoldSchema), eventId: 'event' });
  await expect(voiding).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
});
