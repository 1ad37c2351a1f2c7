import pg from 'pg';
import { NIL } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { rowsOf } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { service, startTestBilling, type TestBilling, usageEvent } from '../fixtures/test-billing.ts';
import { rememberedMs } from '../leasing/lapse.ts';
import { tidyLeases } from '../workers/tidy-leases.ts';

/** Two Billing processes on one database: a request and its release may go to different ones. */
let asked: TestBilling;
let told: TestBilling;
/** Locks what a request will wait for. */
let other: pg.Client;

beforeAll(async () => {
  asked = await startTestBilling();
  told = await startTestBilling(asked.database);
});
afterAll(async () => {
  await told?.close();
  await asked?.close();
});
beforeEach(async () => {
  other = new pg.Client({ connectionString: asked.database.url });
  await other.connect();
});
afterEach(() => other.end());

const patient = { ...service, timeoutMs: 60_000 };
const costMaxNanoUsd = 1_000n;
const limitNanoUsd = 5_000n;

/** A holder's request for room in a key's budget and in a user's, which has no limit. */
function newQuestion() {
  const demands = [
    { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd },
    { kind: BudgetKind.USER, leaseId: uuidv7() },
  ];
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  return { holderId: uuidv7(), ...caller, costMaxNanoUsd, demands };
}
type Question = ReturnType<typeof newQuestion>;

const giveUp = ({ holderId, demands }: Question) =>
  told.billing.releaseHold(
    { holderId, leases: demands.map(({ leaseId }) => ({ leaseId: leaseId.toUpperCase(), fencingToken: 1n })) },
    patient,
  );

const heldFor = async ({ tenantId }: Question): Promise<bigint> => {
  const { rows } = await asked.deps.database.pool.query<{ held: bigint }>(
    'select coalesce(sum(held_nano_usd), 0)::bigint as held from spend where tenant_id = $1',
    [tenantId],
  );
  return rows[0]!.held;
};

/** How many wait for what `other` has locked. */
const waiters = async (): Promise<number> => {
  const { rows } = await other.query(
    'select count(*)::int as count from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))',
  );
  return rows[0].count;
};

const cancelled = { status: 'rejected', reason: { reason: ErrorReason.CANCELLED } };

test('a lease that its holder gave up before the request arrived is not granted', async () => {
  const question = newQuestion();
  expect(await giveUp(question)).toMatchObject({ released: 0 });
  await expect(asked.billing.lease(question, patient)).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
  expect(await heldFor(question)).toBe(0n);
});

test('a lease given up while its request waits for the budget is not granted, but those requested alongside are', async () => {
  const [question, beside] = [newQuestion(), newQuestion()];
  for (const { tenantId, apiKeyId } of [question, beside]) {
    const first = { ...newQuestion(), tenantId, apiKeyId };
    await asked.billing.lease(first, patient);
    await giveUp(first);
  }
  await other.query('begin');
  await other.query('select from billing.spend where tenant_id = $1 for update', [question.tenantId]);
  const answers = Promise.allSettled([question, beside].map((each) => asked.billing.lease(each, patient)));
  await waitFor(async () => (await waiters()) === 1, { description: 'the question to wait' });
  await giveUp(question);
  await other.query('commit');
  expect(await answers).toMatchObject([cancelled, { status: 'fulfilled' }]);
  expect([await heldFor(question), await heldFor(beside)]).toEqual([0n, costMaxNanoUsd]);
});

test.each(['before', 'after'])(
  'room is free if it was given up %s its lease is written, in the same moment',
  async (place) => {
    await rowsOf(
      asked.database.url,
      `create function billing.pause() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(1); return new; end $$;
    create trigger pause ${place} insert on billing.leases
      for each row when (new.room_nano_usd > 0) execute function billing.pause()`,
    );
    const question = newQuestion();
    await other.query('begin');
    await other.query('select pg_advisory_xact_lock(1)');
    const answer = Promise.allSettled([asked.billing.lease(question, patient)]);
    await waitFor(async () => (await waiters()) === 1, { description: 'the lease to be written' });
    const released = giveUp(question);
    if (place === 'before') await released;
    else {
      const waiting = () =>
        rowsOf(
          asked.database.url,
          'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0',
        );
      await waitFor(async () => (await waiting()).length === 2, { description: 'the release to wait for the lease' });
    }
    await other.query('commit');
    expect(await answer).toMatchObject([place === 'before' ? cancelled : { status: 'fulfilled' }]);
    expect(await released).toMatchObject({ released: place === 'before' ? 0 : 1 });
    expect(await heldFor(question)).toBe(0n);
    await rowsOf(asked.database.url, 'drop function billing.pause cascade');
  },
);

test('leases are given up even if that met others that are being written in another order', async () => {
  const write = (id: string) =>
    other.query(
      `insert into billing.leases (tenant_id, id, kind, subject_id, period_start, holder_id, central, room_nano_usd, state, settled_at, expires_at)
        values ($1, $2, 1, $1, now(), $1, true, 0, ${LeaseState.CLOSED}, now(), now())`,
      [NIL, id],
    );
  /** Whether the release was ended for the deadlock; on a busy machine it may have looked for one before there was, and the other is. */
  const meet = async (): Promise<boolean> => {
    const question = newQuestion();
    const [first, second] = question.demands.map(({ leaseId }) => leaseId);
    await other.query('begin');
    await write(second!);
    const released = giveUp(question);
    await waitFor(async () => (await waiters()) === 1, { description: 'the release to wait' });
    const wasEnded = await write(first!).then(
      () => true,
      () => false,
    );
    await other.query('rollback');
    expect(await released).toMatchObject({ released: 0 });
    return wasEnded;
  };
  for (let hasMet = false; !hasMet; ) hasMet = await meet();
});

test('a request repeated after its lease was returned does not reopen it, and what was used stays held', async () => {
  const question = newQuestion();
  const { holderId, demands, tenantId, userId, apiKeyId } = question;
  await asked.billing.lease(question, patient);
  const used = { leaseId: demands[0]!.leaseId, fencingToken: 1n, usedNanoUsd: 400n };
  await told.billing.settle({ holderId, settlements: [used] }, patient);
  await expect(asked.billing.lease(question, patient)).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
  expect(await heldFor(question)).toBe(400n);
  const event = usageEvent({ tenantId, userId, apiKeyId, costNanoUsd: 400n, leaseIds: [used.leaseId] });
  await told.billing.charge({ events: [event] }, patient);
  expect(await heldFor(question)).toBe(0n);
});

test('what was given up is forgotten like returned leases, and leaves nothing behind', async () => {
  await using billing = await startTestBilling();
  const { holderId, demands } = newQuestion();
  const leases = demands.map(({ leaseId }) => ({ leaseId, fencingToken: 1n }));
  await billing.billing.releaseHold({ holderId, leases }, patient);
  const rows = async () => {
    const { rows } = await billing.deps.database.pool.query(
      'select (select count(*) from leases)::int as leases, (select count(*) from spend)::int as spends',
    );
    return rows;
  };
  billing.travel(rememberedMs - 60_000);
  await tidyLeases(billing.deps);
  expect(await rows()).toEqual([{ leases: 2, spends: 0 }]);
  billing.travel(60_000);
  await tidyLeases(billing.deps);
  expect(await rows()).toEqual([{ leases: 0, spends: 0 }]);
});

test('a lease that somebody has locked is forgotten the next time, and holds up none of the others', async () => {
  await using billing = await startTestBilling();
  const { holderId, demands } = newQuestion();
  const leases = demands.map(({ leaseId }) => ({ leaseId, fencingToken: 1n }));
  await billing.billing.releaseHold({ holderId, leases }, patient);
  billing.travel(rememberedMs);
  const left = async () => {
    const { rows } = await billing.deps.database.pool.query<{ id: string }>('select id from leases');
    return rows.map(({ id }) => id);
  };
  const locked = demands[1]!.leaseId;
  const holder = await billing.deps.database.pool.connect();
  try {
    await holder.query('begin');
    await holder.query('select from leases where id = $1 for update', [locked]);
    await tidyLeases(billing.deps);
    expect(await left()).toEqual([locked]);
    await holder.query('rollback');
  } finally {
    holder.release();
  }
  await tidyLeases(billing.deps);
  expect(await left()).toEqual([]);
});

test('a lease requested by another holder is granted anew, with a number that makes the first holder’s reports void', async () => {
  const question = newQuestion();
  const first = (await asked.billing.lease(question, patient)).leases[0]!;
  const second = (await told.billing.lease({ ...question, holderId: uuidv7() }, patient)).leases[0]!;
  expect([first.fencingToken, second.fencingToken]).toEqual([1n, 2n]);
  const settlements = [{ leaseId: first.id, fencingToken: 1n, usedNanoUsd: 0n }];
  const { leases } = await told.billing.settle({ holderId: question.holderId, settlements }, patient);
  expect([leases[0]!.state, await heldFor(question)]).toEqual([LeaseState.LAPSED, costMaxNanoUsd]);
});
