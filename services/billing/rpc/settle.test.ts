import type { MessageInitShape } from '@bufbuild/protobuf';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BudgetKind, type LeaseSettlementSchema, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { as, person, service, startTestBilling, type TestBilling, usageEvent } from '../fixtures/test-billing.ts';
import { lateMs } from '../leasing/lapse.ts';

let started: TestBilling;
/** Locks what a report will wait for. */
let other: pg.Client;
beforeAll(async () => {
  started = await startTestBilling();
  other = new pg.Client({ connectionString: started.database.url });
  await other.connect();
});
afterAll(async () => {
  await other?.end();
  await started?.close();
});

const patient = { ...service, timeoutMs: 60_000 };
const slice = 101_000n;

/** A slice of a key's budget, with its first call of 1,000. */
async function newSlice() {
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  const [leaseId, holderId] = [uuidv7(), uuidv7()];
  const demand = { kind: BudgetKind.API_KEY, leaseId, limitNanoUsd: 1_000_000n, sliceNanoUsd: 100_000n };
  await started.billing.lease({ holderId, ...caller, costMaxNanoUsd: 1_000n, demands: [demand] }, patient);
  return {
    leaseId,
    holderId,
    caller,
    async report(told: MessageInitShape<typeof LeaseSettlementSchema>, by = holderId) {
      const settlements = [{ leaseId, fencingToken: 1n, keep: true, ...told }];
      return (await started.billing.settle({ holderId: by, settlements }, patient)).leases[0]!;
    },
    async row() {
      const { rows } = await other.query('select * from billing.leases where id = $1', [leaseId]);
      return rows[0];
    },
    async held(): Promise<bigint> {
      const text = 'select held_nano_usd as held from spend where tenant_id = $1';
      return (await started.deps.database.pool.query(text, [caller.tenantId])).rows[0].held;
    },
  };
}

/** Waits until this many reports wait for `other`, or for each other. */
const waitersAre = (count: number) =>
  waitFor(
    async () => {
      const waiting =
        'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0';
      // In a transaction Postgres shows only connections of the first look.
      await other.query('select pg_stat_clear_snapshot()');
      return (await other.query(waiting)).rowCount === count;
    },
    { description: `${count} reports to wait` },
  );

test.each([
  ['another holder', 1n, uuidv7()],
  ['its holder under an outdated number', 0n, undefined],
])('what %s says about a lease changes nothing', async (_, fencingToken, by) => {
  const { report, row } = await newSlice();
  const before = await row();
  for (const keep of [true, false]) {
    const told = { fencingToken, keep, usedNanoUsd: 1n, inFlightNanoUsd: 2n, roomNanoUsd: 3n };
    expect((await report(told, by)).state).toBe(LeaseState.LAPSED);
  }
  expect(await row()).toEqual(before);
});

test('room that was given back never grows again, however late an earlier report arrives', async () => {
  const { report, held } = await newSlice();
  expect((await report({ roomNanoUsd: 50_000n })).lease!.heldNanoUsd).toBe(50_000n);
  expect((await report({ roomNanoUsd: slice })).lease!.heldNanoUsd).toBe(50_000n);
  expect(await held()).toBe(50_000n);
});

test('what was used stays held, though a report from before the lease was returned arrives in the same moment', async () => {
  const { caller, report, held } = await newSlice();
  await other.query('begin');
  await other.query('select from billing.spend where tenant_id = $1 for update', [caller.tenantId]);
  const returned = report({ keep: false, usedNanoUsd: 4_000n });
  await waitersAre(1);
  const late = report({ usedNanoUsd: 1_000n, roomNanoUsd: 2_000n });
  await waitersAre(2);
  await other.query('commit');
  expect((await returned).state).toBe(LeaseState.CLOSED);
  expect((await late).state).toBe(LeaseState.LAPSED);
  expect(await held()).toBe(4_000n);
});

test.each([
  ['was returned', `state = ${LeaseState.CLOSED}`],
  ['was given to another', 'fencing_token = 2'],
])('a lease that %s in the same moment is neither renewed nor made smaller', async (_, change) => {
  const { leaseId, report, row } = await newSlice();
  await other.query('begin');
  await other.query('select from billing.leases where id = $1 for update', [leaseId]);
  const renewed = report({ inFlightNanoUsd: 1_000n });
  const madeSmaller = report({ inFlightNanoUsd: 1_000n, roomNanoUsd: 1_000n });
  await waitersAre(2);
  await other.query(`update billing.leases set ${change} where id = $1`, [leaseId]);
  await other.query('commit');
  expect([(await renewed).state, (await madeSmaller).state]).toEqual([LeaseState.LAPSED, LeaseState.LAPSED]);
  expect((await row()).room_nano_usd).toBe(String(slice));
});

test('a lease that was returned never occupies more room than before, whatever is reported late', async () => {
  const { report, held } = await newSlice();
  for (const [usedNanoUsd, kept] of [
    [4_000n, 4_000n],
    [6_000n, 4_000n],
    [1_000n, 1_000n],
  ] as const) {
    expect((await report({ keep: false, usedNanoUsd })).state).toBe(LeaseState.CLOSED);
    expect(await held()).toBe(kept);
  }
  // Whoever would still keep it learns that it was used: a job whose earlier run had succeeded needs no other room.
  expect(await report({})).toMatchObject({ state: LeaseState.CLOSED, usedNanoUsd: 1_000n });
});

test('a slice whose room is wanted counts as settled only once its holder has confirmed that', async () => {
  const { caller, report, held, row } = await newSlice();
  const settledAt = async () => (await row()).settled_at.getTime();
  const before = await settledAt();
  await report({ inFlightNanoUsd: 1_000n });
  const last = await settledAt();
  expect(last).toBeGreaterThan(before);
  await started.billing.charge({ events: [usageEvent({ ...caller, costNanoUsd: 890_000n })] }, patient);
  const { lease } = await report({ inFlightNanoUsd: 1_000n });
  expect([lease!.heldNanoUsd < slice, await held(), await settledAt()]).toEqual([true, slice, last]);
  await report({ inFlightNanoUsd: 1_000n, roomNanoUsd: lease!.heldNanoUsd });
  expect(await held()).toBe(lease!.heldNanoUsd);
  expect(await settledAt()).toBeGreaterThan(last);
});

test('the first to ask once a call has fallen silent for good gets its room, before any worker looks', async () => {
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  const ask = () => {
    const demand = { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 1_000n };
    const asked = { holderId: uuidv7(), ...caller, costMaxNanoUsd: 1_000n, timeToLive: { seconds: 30n } };
    return started.billing.lease({ ...asked, demands: [demand] }, patient);
  };
  await ask();
  await expect(ask()).rejects.toThrow('spend cap');
  started.travel(30_000 + lateMs);
  await ask();
  await expect(ask()).rejects.toThrow('spend cap');
});

test('slices far from their limits are settled while the accounts and budgets are busy, an organization’s and a user’s too', async () => {
  const { billing } = started;
  const owner = person();
  const { tenantId, userId } = owner;
  await billing.setPaygSpendCap({ limitNanoUsd: 1_000_000n }, as(owner));
  await billing.setCostLimit({ limitNanoUsd: 1_000_000n }, as(owner));
  const kinds = [
    { kind: BudgetKind.API_KEY, limitNanoUsd: 1_000_000n },
    { kind: BudgetKind.USER },
    { kind: BudgetKind.ORGANIZATION },
  ];
  const demands = kinds.map((fields) => ({ ...fields, leaseId: uuidv7(), sliceNanoUsd: 99_000n }));
  const holderId = uuidv7();
  const asked = { holderId, tenantId, userId, apiKeyId: uuidv7(), costMaxNanoUsd: 1_000n, demands };
  const { leases } = await billing.lease(asked, patient);
  expect(leases.map(({ heldNanoUsd }) => heldNanoUsd)).toEqual([100_000n, 100_000n, 100_000n]);
  const settlements = leases.map(({ id: leaseId, fencingToken }) => ({
    leaseId,
    fencingToken,
    keep: true,
    usedNanoUsd: 3_000n,
  }));
  await other.query('begin');
  await other.query('select from billing.accounts where tenant_id = $1 for update', [tenantId]);
  await other.query('select from billing.spend where tenant_id = $1 for update', [tenantId]);
  const settled = await billing.settle({ holderId, settlements }, service).finally(() => other.query('rollback'));
  expect(settled.leases.map(({ state, lease }) => [state, lease?.heldNanoUsd])).toEqual(
    kinds.map(() => [LeaseState.HELD, 100_000n]),
  );
});

test('while the accounts of some organizations stay busy, the leases of all others are settled within the second that a holder waits', async () => {
  const { billing } = started;
  const holderId = uuidv7();
  const newLease = async (sliceNanoUsd: bigint) => {
    const owner = person();
    const { tenantId, userId } = owner;
    await billing.setPaygSpendCap({ limitNanoUsd: 1_000_000n }, as(owner));
    const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7(), sliceNanoUsd }];
    const { leases } = await billing.lease({ holderId, tenantId, userId, costMaxNanoUsd: 1_000n, demands }, patient);
    return { tenantId, leaseId: leases[0]!.id };
  };
  const busy = [await newLease(99_000n), await newLease(99_000n), await newLease(0n)] as const;
  const free = await newLease(0n);
  const settlements = [
    { leaseId: busy[0].leaseId, keep: true, roomNanoUsd: 50_000n },
    { leaseId: busy[1].leaseId, keep: true, roomNanoUsd: 50_000n },
    { leaseId: busy[2].leaseId, keep: false },
    { leaseId: free.leaseId, keep: false },
  ].map((told) => ({ fencingToken: 1n, ...told }));
  const settle = async () => {
    const { leases } = await billing.settle({ holderId, settlements }, { ...service, timeoutMs: 1_000 });
    return leases.map(({ state, lease }) => [state, lease?.heldNanoUsd]);
  };
  const tenantIds = busy.map(({ tenantId }) => tenantId);
  const text = 'select sum(held_nano_usd)::bigint as held from spend where tenant_id = any($1)';
  const held = async () => (await started.deps.database.pool.query(text, [tenantIds])).rows[0].held;
  await other.query('begin');
  await other.query('select from billing.accounts where tenant_id = any($1) for update', [tenantIds]);
  const [kept, closed] = [
    [LeaseState.HELD, 50_000n],
    [LeaseState.CLOSED, undefined],
  ];
  const settled = await settle().finally(() => other.query('rollback'));
  expect(settled).toEqual([kept, kept, [LeaseState.HELD, 1_000n], closed]);
  expect(await held()).toBe(201_000n);
  expect(await settle()).toEqual([kept, kept, closed, closed]);
  expect(await held()).toBe(100_000n);
});

test('while the spend and leases of an organization stay locked, those of others are kept and given back within the second that a holder waits', async () => {
  const { billing } = started;
  const holderId = uuidv7();
  const newLease = async (tenantId: string) => {
    const demand = { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 1_000_000n, sliceNanoUsd: 99_000n };
    const asked = { holderId, tenantId, userId: uuidv7(), apiKeyId: uuidv7(), costMaxNanoUsd: 1_000n };
    return (await billing.lease({ ...asked, demands: [demand] }, patient)).leases[0]!.id;
  };
  const [busy, free] = [uuidv7(), uuidv7()];
  const settlements = [
    { leaseId: await newLease(busy), keep: true },
    { leaseId: await newLease(busy), keep: true, roomNanoUsd: 50_000n },
    { leaseId: await newLease(busy), keep: false },
    { leaseId: await newLease(free), keep: true },
    { leaseId: await newLease(free), keep: true, roomNanoUsd: 50_000n },
    { leaseId: await newLease(free), keep: false },
  ].map((told) => ({ fencingToken: 1n, ...told }));
  const settle = async () => {
    const { leases } = await billing.settle({ holderId, settlements }, { ...service, timeoutMs: 1_000 });
    return leases.map(({ state, lease }) => [state, lease?.heldNanoUsd]);
  };
  const kept = [LeaseState.HELD, 100_000n];
  const smaller = [LeaseState.HELD, 50_000n];
  const closed = [LeaseState.CLOSED, undefined];
  await other.query('begin');
  for (const table of ['spend', 'leases']) {
    await other.query(`select from billing.${table} where tenant_id = $1 for update`, [busy]);
  }
  const settled = await settle().finally(() => other.query('rollback'));
  expect(settled).toEqual([kept, smaller, kept, kept, smaller, closed]);
  expect(await settle()).toEqual([kept, smaller, closed, kept, smaller, closed]);
});

test('leases are granted, settled and given back while a later version adds a column to them and to what was spent', async () => {
  const settledWhole = async () => {
    const { report } = await newSlice();
    return [(await report({})).state, (await report({ keep: false })).state];
  };
  const states = [LeaseState.HELD, LeaseState.CLOSED];
  expect(await settledWhole()).toEqual(states);
  const alter = (change: string) =>
    other.query(`alter table billing.leases ${change}; alter table billing.spend ${change}`);
  await alter('add column later boolean');
  try {
    expect(await settledWhole()).toEqual(states);
  } finally {
    await alter('drop column later');
  }
});
