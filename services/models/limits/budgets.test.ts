import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { LeaseResponseSchema, ReleaseHoldResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { Budgets, type BudgetsDeps } from './budgets.ts';

type Lease = BudgetsDeps['billing']['lease'];

/**
 * The budgets of a process whose Billing answers by `lease`, which is told how long it is waited for, and no settlement, which takes
 * `settleMs`; `pass` moves the time on.
 */
function budgetsBy(lease: (timeoutMs: number, pass: (ms: number) => void) => ReturnType<Lease>, settleMs = 1_000) {
  let nowMs = 0;
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const released: string[][] = [];
  const billing = {
    lease: ((_request, options) => lease(options!.timeoutMs!, pass)) as Lease,
    settle: ((_request) => silence(settleMs, pass)) as BudgetsDeps['billing']['settle'],
    releaseHold: (async ({ leases }) => {
      released.push(leases!.map(({ leaseId }) => leaseId!));
      throw new Error('Billing is away');
    }) as BudgetsDeps['billing']['releaseHold'],
  };
  const budgets = new Budgets({ billing, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const tenantId = uuidv7();
  /** Holds for a call of a user of one organization, by default another one each time. */
  const hold = async (userId = uuidv7(), constraints?: { spendCapNanoUsd: bigint }, apiKeyId = uuidv7(), cost = 1n) =>
    budgets.hold({ tenantId, userId, apiKeyId }, constraints, cost);
  return { hold, pass, passedMs: () => nowMs, budgets, billing, released };
}

/** The answer of a Billing that is silent. */
async function silence(timeoutMs: number, pass: (ms: number) => void): Promise<never> {
  await new Promise(setImmediate);
  pass(Math.max(0, timeoutMs));
  // As everywhere: 0 or less is no deadline.
  if (timeoutMs <= 0) return new Promise(() => {});
  throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'late');
}

test('while Billing is silent a call is refused within 3 s, as a job is: what did not answer for so long is not asked again', async () => {
  const { hold, passedMs } = budgetsBy(silence);
  await expect(hold()).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  expect(passedMs()).toBe(3_000);
});

test('Billing is told until it hears it that a call which was given up wants no room, and then no more', async () => {
  const { hold, budgets, billing, released } = budgetsBy(silence);
  await expect(hold()).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  await budgets.tick();
  const [first] = released;
  expect(first).toHaveLength(2);
  expect(released).toEqual([first, first]);
  billing.releaseHold = async ({ leases }) => {
    released.push(leases!.map(({ leaseId }) => leaseId!));
    return create(ReleaseHoldResponseSchema);
  };
  for (let ticks = 0; ticks < 3; ticks += 1) {
    await budgets.tick();
    await new Promise(setImmediate);
  }
  expect(released).toEqual([first, first, first]);
});

test('room that Billing may have granted without being heard is given back, though it refuses the same request when that is repeated', async () => {
  let asked = 0;
  const { hold, released } = budgetsBy(async () => {
    asked += 1;
    throw gatewayError(asked === 1 ? ErrorReason.OVERLOADED : ErrorReason.PAYG_CAP_EXCEEDED, 'no');
  });
  await expect(hold()).rejects.toMatchObject({ reason: ErrorReason.PAYG_CAP_EXCEEDED });
  expect([asked, released.length]).toEqual([2, 1]);
});

test('a call that one budget refuses takes nothing of the slice of another', async () => {
  const slice = { id: uuidv7(), fencingToken: 1n, heldNanoUsd: 16n };
  let isRefused = false;
  const { hold, pass, budgets, billing } = budgetsBy(async () => {
    if (isRefused) throw gatewayError(ErrorReason.COST_LIMIT_EXCEEDED, 'no');
    return create(LeaseResponseSchema, { leases: [slice, { unlimited: true }, { unlimited: true }] });
  });
  const caller = [uuidv7(), { spendCapNanoUsd: 1_000n }, uuidv7()] as const;
  void (await hold(...caller)).settle(1n);
  isRefused = true;
  pass(10_000);
  await expect(hold(...caller)).rejects.toMatchObject({ reason: ErrorReason.COST_LIMIT_EXCEEDED });
  const told: unknown[] = [];
  billing.settle = async ({ settlements }) => {
    told.push(...settlements!.map(({ usedNanoUsd, inFlightNanoUsd }) => [usedNanoUsd, inFlightNanoUsd]));
    throw new Error('Billing is away');
  };
  await budgets.tick();
  expect(told).toEqual([[1n, 0n]]);
});

test('calls that wait for the answer to another about the same budget are refused with it, not one after the other', async () => {
  let calls = 0;
  const { hold, passedMs } = budgetsBy(async (timeoutMs, pass) => {
    calls += 1;
    return silence(timeoutMs, pass);
  });
  const held = await Promise.allSettled(Array.from({ length: 5 }, () => hold()));
  expect(held).toEqual(
    Array(5).fill({ status: 'rejected', reason: expect.objectContaining({ reason: ErrorReason.OVERLOADED }) }),
  );
  expect([calls, passedMs()]).toEqual([1, 3_000]);
});

test('a caller who had no limit a moment ago goes on, though the one whose answer it waits for cannot', async () => {
  let isSilent = false;
  const { hold, pass } = budgetsBy(async (timeoutMs, pass) => {
    if (isSilent) return silence(timeoutMs, pass);
    return create(LeaseResponseSchema, { leases: [{ unlimited: true }, { unlimited: true }] });
  });
  const userId = uuidv7();
  await hold(userId);
  pass(10_000);
  isSilent = true;
  const [capped, free] = await Promise.allSettled([hold(uuidv7(), { spendCapNanoUsd: 1_000n }), hold(userId)]);
  expect([capped.status, free.status]).toEqual(['rejected', 'fulfilled']);
});

test('a call with a cap that waits for the answer to one without a limit is refused with its failure, while that one goes on', async () => {
  let isSilent = false;
  const { hold, pass, passedMs } = budgetsBy(async (timeoutMs, pass) => {
    if (isSilent) return silence(timeoutMs, pass);
    return create(LeaseResponseSchema, { leases: [{ unlimited: true }, { unlimited: true }] });
  });
  const userId = uuidv7();
  await hold(userId);
  pass(10_000);
  isSilent = true;
  const [free, capped] = await Promise.allSettled([hold(userId), hold(userId, { spendCapNanoUsd: 1_000n })]);
  expect([free.status, capped.status, passedMs()]).toEqual(['fulfilled', 'rejected', 13_000]);
});

test.each([
  ['for more than its slice has', { calls: 1, settleMs: 1_000, passedMs: 3_000 }],
  ['for more than its slice has, behind many settlements,', { calls: 1, settleMs: 3_500, passedMs: 3_501 }],
  ['while the next slice is asked for', { calls: 9, settleMs: 1_000, passedMs: 3_000 }],
])('once Billing falls silent a call %s is refused in time', async (_when, { calls, settleMs, ...expected }) => {
  const slice = { id: uuidv7(), fencingToken: 1n, heldNanoUsd: 16n };
  let isSilent = false;
  const { hold, passedMs } = budgetsBy(async (timeoutMs, pass) => {
    if (isSilent) return silence(timeoutMs, pass);
    isSilent = true;
    return create(LeaseResponseSchema, { leases: [slice, { unlimited: true }, { unlimited: true }] });
  }, settleMs);
  const [userId, apiKeyId] = [uuidv7(), uuidv7()];
  for (let call = 0; call < calls; call++) await hold(userId, { spendCapNanoUsd: 1_000n }, apiKeyId);
  await expect(hold(userId, { spendCapNanoUsd: 1_000n }, apiKeyId, 16n)).rejects.toMatchObject({
    reason: ErrorReason.OVERLOADED,
  });
  expect(passedMs()).toBe(expected.passedMs);
});

test('if the connection to Billing breaks it is asked again at once, in what is left of the 3 s', async () => {
  const waitedMs: number[] = [];
  const { hold } = budgetsBy(async (timeoutMs, pass) => {
    waitedMs.push(timeoutMs);
    // Not a whole number, which no deadline on the wire may be.
    pass(9.5);
    if (waitedMs.length === 1) throw gatewayError(ErrorReason.OVERLOADED, 'the connection broke');
    return create(LeaseResponseSchema, { leases: [{ unlimited: true }, { unlimited: true }] });
  });
  expect((await hold()).leaseIds).toEqual([]);
  expect(waitedMs).toEqual([3_000, 2_991]);
});
