import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { LeaseResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../../test/support/keys.ts';
import { Budgets, type BudgetsDeps } from './budgets.ts';

type Lease = BudgetsDeps['billing']['lease'];

/** The budgets of a process whose Billing answers by `lease`, which is told how long it is waited for; `pass` moves the time on. */
function budgetsBy(lease: (timeoutMs: number, pass: (ms: number) => void) => ReturnType<Lease>) {
  let nowMs = 0;
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const billing = {
    lease: ((_request, options) => lease(options!.timeoutMs!, pass)) as Lease,
    settle: () => Promise.reject(new Error('nothing is settled here')),
    releaseHold: () => Promise.reject(new Error('nothing is given back here')),
  };
  const budgets = new Budgets({ billing, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  return { hold: async () => budgets.hold(caller, undefined, 1n), passedMs: () => nowMs };
}

test('while Billing is silent a call is refused within 3 s, as a job is: what did not answer for so long is not asked again', async () => {
  const { hold, passedMs } = budgetsBy(async (timeoutMs, pass) => {
    pass(timeoutMs);
    throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'late');
  });
  await expect(hold()).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  expect(passedMs()).toBe(3_000);
});

test('if the connection to Billing breaks it is asked again at once, in what is left of the 3 s', async () => {
  const waitedMs: number[] = [];
  const { hold } = budgetsBy(async (timeoutMs, pass) => {
    waitedMs.push(timeoutMs);
    pass(10);
    if (waitedMs.length === 1) throw gatewayError(ErrorReason.OVERLOADED, 'the connection broke');
    return create(LeaseResponseSchema, { leases: [{ unlimited: true }, { unlimited: true }] });
  });
  expect((await hold()).leaseIds).toEqual([]);
  expect(waitedMs).toEqual([3_000, 2_990]);
});
