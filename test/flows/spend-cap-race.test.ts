import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, GatewayError, gatewayError, hasReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import {
  as,
  operator,
  person,
  service,
  startTestBilling,
  type TestBilling,
  usageEvent,
} from '../../services/billing/fixtures/test-billing.ts';
import { Budgets, type BudgetsDeps } from '../../services/models/limits/budgets.ts';
import type { Hold } from '../../services/models/limits/hold.ts';
import { settleIntervalMs } from '../../services/models/limits/lease-settler.ts';
import { SeededRandom } from '../support/leases/schedule.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { waitFor } from '../support/wait-for.ts';

const costMax = 1_000_000n;
let started: TestBilling;

beforeAll(async () => {
  started = await startTestBilling();
});
afterAll(() => started.close());

/**
 * Billing as edges reach it on a machine with time to spare. On a busy one, a settlement may miss its second, or a lease may lapse during a
 * call: then callers are refused for room that is still held, or served beyond it, which is not what these tests are about.
 */
function patientBilling(): BudgetsDeps['billing'] {
  const { billing } = started;
  const timeoutMs = 60_000;
  const timeToLive = durationFromMs(3_600_000);
  return {
    lease: (request, options) =>
      untilServed(() => billing.lease({ ...request, timeToLive }, { ...options, timeoutMs })),
    settle: (request, options) =>
      untilServed(() => billing.settle({ ...request, timeToLive }, { ...options, timeoutMs })),
    releaseHold: (request, options) => untilServed(() => billing.releaseHold(request, { ...options, timeoutMs })),
  };
}

/** Four edges of one gateway, settling as they do in production. */
function fourEdges() {
  const billing = patientBilling();
  const edges = Array.from({ length: 4 }, () => new Budgets({ billing, clock: systemClock, logger: silentLogger }));
  const timers = edges.map((edge) => setInterval(() => void edge.tick(), settleIntervalMs));
  return {
    edges,
    async [Symbol.asyncDispose]() {
      for (const timer of timers) clearInterval(timer);
      await Promise.all(edges.map((edge) => edge.close()));
    },
  };
}

type Caller = { tenantId: string; userId: string; apiKeyId: string };
const someone = (): Caller => ({ tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() });

/** Tries again, as clients and shippers do, while Billing has too much to do at once. */
async function untilServed<Answer>(ask: () => Answer | Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isBusy = hasReason(error, ErrorReason.OVERLOADED) || hasReason(error, ErrorReason.DEADLINE_EXCEEDED);
      if (!isBusy) throw error;
    }
  }
}

/** A call from admission to its end; null if it was refused. Its event is charged later, like those of a shipper. */
async function runCall(
  edge: Budgets,
  caller: Caller,
  options: { capNanoUsd?: bigint; costNanoUsd: bigint; reason: ErrorReason; events: UsageEvent[] },
): Promise<bigint | null> {
  let hold: Hold;
  try {
    hold = await untilServed(() => edge.hold(caller, { spendCapNanoUsd: options.capNanoUsd }, costMax));
  } catch (error) {
    if (hasReason(error, options.reason)) return null;
    throw error;
  }
  await new Promise((resolve) => setImmediate(resolve));
  await hold.settle(options.costNanoUsd);
  options.events.push(usageEvent({ ...caller, costNanoUsd: options.costNanoUsd, leaseIds: [...hold.leaseIds] }));
  return options.costNanoUsd;
}

/** Charges what has been metered since the last time. */
async function ship(events: UsageEvent[]): Promise<void> {
  if (events.length === 0) return;
  await untilServed(() => started.billing.charge({ events }, { ...service, timeoutMs: 60_000 }));
  events.length = 0;
}

const held = async ({ tenantId }: Caller): Promise<bigint> => {
  const { rows } = await started.deps.database.pool.query<{ held: bigint }>(
    'select coalesce(sum(held_nano_usd), 0)::bigint as held from spend where tenant_id = $1',
    [tenantId],
  );
  return rows[0]!.held;
};

test('200 requests at a cap from four edges at once overshoot by at most one request, and later ones fill the cap', async () => {
  await using gateway = fourEdges();
  const caller = someone();
  const capNanoUsd = 60n * costMax;
  const random = new SeededRandom(7);
  const events: UsageEvent[] = [];
  const call = (index: number) =>
    runCall(gateway.edges[index % 4]!, caller, {
      capNanoUsd,
      costNanoUsd: BigInt(random.between(300_000, 1_000_000)),
      reason: ErrorReason.SPEND_CAP_EXCEEDED,
      events,
    });

  let spent = 0n;
  for (const cost of await Promise.all(Array.from({ length: 200 }, (_, index) => call(index)))) spent += cost ?? 0n;
  expect(spent).toBeLessThan(capNanoUsd + costMax);
  await ship(events);

  // One after the other, at any edge: nobody is refused while less than the cap was spent, charged or not.
  for (let index = 0; ; index++) {
    const cost = await call(index);
    if (cost === null) break;
    spent += cost;
    if (index % 3 === 0) await ship(events);
  }
  expect(spent).toBeGreaterThanOrEqual(capNanoUsd);
  expect(spent).toBeLessThan(capNanoUsd + costMax);

  await ship(events);
  const { spends } = await started.billing.getSpendToday(
    { apiKeyIds: [caller.apiKeyId], tenantId: caller.tenantId },
    service,
  );
  expect(spends[0]!.spentNanoUsd).toBe(spent);
  await Promise.all(gateway.edges.map((edge) => edge.close()));
  expect(await held(caller)).toBe(0n);
});

test('what an edge holds for a thousand keys is taken, renewed and returned in a few transactions', async () => {
  const edge = new Budgets({ billing: patientBilling(), clock: systemClock, logger: silentLogger });
  const { tenantId, userId } = someone();
  const key = { spendCapNanoUsd: 1_000n * costMax };
  const use = async (): Promise<void> => {
    const hold = await untilServed(() => edge.hold({ tenantId, userId, apiKeyId: uuidv7() }, key, costMax));
    await hold.settle(0n);
  };
  let transactions = 0;
  const count = (): void => {
    transactions += 1;
  };
  const { pool } = started.deps.database;
  pool.on('acquire', count);
  await Promise.all(Array.from({ length: 1_100 }, use));
  expect(edge.leaseCount).toBe(1_100);
  await edge.tick();
  await edge.close();
  pool.off('acquire', count);
  expect(edge.leaseCount).toBe(0);
  expect(transactions).toBeLessThan(150);
  expect(await held({ tenantId, userId, apiKeyId: '' })).toBe(0n);
});

test('when many ask at once, each gets what it would get alone, however its ids are capitalized', async () => {
  const tenantId = uuidv7();
  const apiKeyId = uuidv7();
  const holderId = uuidv7();
  const ask = (leaseId: string, limitNanoUsd: bigint, key = apiKeyId) =>
    started.billing.lease(
      {
        holderId,
        tenantId,
        userId: uuidv7(),
        apiKeyId: key,
        costMaxNanoUsd: costMax,
        demands: [{ kind: BudgetKind.API_KEY, leaseId, limitNanoUsd, sliceNanoUsd: 0n }],
      },
      service,
    );
  const leaseId = uuidv7();
  const [first, again, other, refused, ...rest] = await Promise.allSettled([
    ask(leaseId, costMax),
    ask(leaseId.toUpperCase(), costMax),
    ask(uuidv7(), costMax, uuidv7()),
    ask(uuidv7(), costMax, apiKeyId.toUpperCase()),
    // A higher cap, as another edge may already know it, has room for one more.
    ask(uuidv7(), 2n * costMax),
    ask(uuidv7(), 2n * costMax),
  ]);
  const room = { central: true, heldNanoUsd: costMax, fencingToken: 1n };
  expect(first).toMatchObject({ value: { leases: [{ id: leaseId, ...room }] } });
  expect(again).toMatchObject({ value: { leases: [{ id: leaseId, ...room }] } });
  expect(other).toMatchObject({ value: { leases: [room] } });
  expect(refused).toMatchObject({ status: 'rejected' });
  expect(rest).toMatchObject([{ value: { leases: [room] } }, { status: 'rejected' }]);
  expect(await held({ tenantId, userId: '', apiKeyId })).toBe(3n * costMax);
});

test('credit without PAYG runs out at its end, whichever edge asks', async () => {
  await using gateway = fourEdges();
  const caller = someone();
  const { tenantId } = caller;
  await started.billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  await started.billing.grantCredit(
    { requestId: uuidv7(), tenantId, source: 1, amountNanoUsd: 20n * costMax },
    operator,
  );
  const events: UsageEvent[] = [];
  const options = { costNanoUsd: 700_000n, reason: ErrorReason.CREDIT_BALANCE_EXHAUSTED, events };
  let spent = 0n;
  const all = Array.from({ length: 60 }, (_, index) => runCall(gateway.edges[index % 4]!, caller, options));
  for (const cost of await Promise.all(all)) spent += cost ?? 0n;
  await ship(events);
  for (let index = 0; ; index++) {
    const cost = await runCall(gateway.edges[index % 4]!, caller, options);
    if (cost === null) break;
    spent += cost;
  }
  expect(spent).toBeGreaterThanOrEqual(20n * costMax);
  expect(spent).toBeLessThan(21n * costMax);
  await ship(events);
  await Promise.all(gateway.edges.map((edge) => edge.close()));
  expect(await held(caller)).toBe(0n);
  const { faults } = await started.billing.verifyLedger({ tenantId }, service);
  expect(faults).toEqual([]);
});

test('the key, the user and the organization limit a call in this order, and say when they reset', async () => {
  await using gateway = fourEdges();
  const edge = gateway.edges[0]!;
  const caller = someone();
  const user = as(person(caller));
  const refusal = async (capNanoUsd: bigint | undefined): Promise<GatewayError> => {
    try {
      const hold = await edge.hold(caller, { spendCapNanoUsd: capNanoUsd }, costMax);
      await hold.settle(0n);
    } catch (error) {
      return error as GatewayError;
    }
    throw new Error('it was admitted');
  };
  await started.billing.setPaygSpendCap({ limitNanoUsd: 0n }, user);
  const organization = await refusal(undefined);
  expect(organization.reason).toBe(ErrorReason.PAYG_CAP_EXCEEDED);
  await started.billing.setCostLimit({ limitNanoUsd: 0n }, user);
  // The absence of a limit is checked again within seconds; a fresh edge checks at once.
  const fresh = gateway.edges[1]!;
  await expect(fresh.hold(caller, {}, costMax)).rejects.toMatchObject({ reason: ErrorReason.COST_LIMIT_EXCEEDED });
  const key = await refusal(0n);
  expect(key.reason).toBe(ErrorReason.SPEND_CAP_EXCEEDED);
  const midnight = new Date();
  midnight.setUTCHours(24, 0, 0, 0);
  expect(key.message).toContain(`will reset at ${midnight.toISOString()}`);
  expect(key.details.resetsAtMs).toBe(midnight.getTime());
  expect(new Date(organization.details.resetsAtMs!).toISOString()).toMatch(/-01T00:00:00.000Z$/);

  await started.billing.deleteCostLimit({}, user);
  await started.billing.deletePaygSpendCap({}, user);
  const hold = await gateway.edges[2]!.hold(caller, {}, costMax);
  expect(hold.leaseIds).toEqual([]);
});

test('a lowered cap takes effect with the next request, and a model without a price is refused under any limit', async () => {
  await using gateway = fourEdges();
  const edge = gateway.edges[0]!;
  const caller = someone();
  const first = await edge.hold(caller, { spendCapNanoUsd: 1_000n * costMax }, costMax);
  await first.settle(costMax);
  await expect(edge.hold(caller, { spendCapNanoUsd: costMax }, costMax)).rejects.toMatchObject({
    reason: ErrorReason.SPEND_CAP_EXCEEDED,
  });
  await expect(
    Promise.resolve().then(() => edge.hold(caller, { spendCapNanoUsd: 1_000n * costMax }, null)),
  ).rejects.toMatchObject({
    reason: ErrorReason.MODEL_NOT_ALLOWED,
  });
  expect((await edge.hold(caller, {}, null)).leaseIds).toEqual([]);
});

test('without limits a call is decided in memory, and continues while Billing is away', async () => {
  let isAway = false;
  const away = new GatewayError(ErrorReason.OVERLOADED, 'away');
  let calls = 0;
  const billing = {
    ...started.billing,
    lease: (...call: Parameters<typeof started.billing.lease>) => {
      calls += 1;
      return isAway ? Promise.reject(away) : started.billing.lease(...call);
    },
  };
  let nowMs = 0;
  const edge = new Budgets({ billing, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const caller = someone();
  await edge.hold(caller, {}, costMax);
  for (let index = 0; index < 1_000; index++) expect(edge.hold(caller, {}, costMax)).not.toBeInstanceOf(Promise);
  expect(calls).toBe(1);

  isAway = true;
  nowMs += 30_000;
  expect((await edge.hold(caller, {}, costMax)).leaseIds).toEqual([]);
  nowMs += 31_000;
  await expect(edge.hold(caller, {}, costMax)).rejects.toBe(away);
  await expect(edge.hold(someone(), {}, costMax)).rejects.toBe(away);
});

test('an edge may use room that Billing wants back until it has heard so, and nobody else has that room before', async () => {
  const { billing } = started;
  const caller = someone();
  const key = { spendCapNanoUsd: 16n * costMax };
  const answer = Promise.withResolvers<void>();
  const told = Promise.withResolvers<void>();
  const slow: BudgetsDeps['billing'] = {
    ...patientBilling(),
    async settle(request, options) {
      const settled = await billing.settle(request, options);
      told.resolve();
      await answer.promise;
      return settled;
    },
  };
  const edge = new Budgets({ billing: slow, clock: systemClock, logger: silentLogger });
  const other = new Budgets({ billing: patientBilling(), clock: systemClock, logger: silentLogger });
  const admitted: Hold[] = [await edge.hold(caller, key, costMax)];
  const call = async (budgets: Budgets): Promise<boolean> => {
    const hold = await Promise.resolve(budgets.hold(caller, key, costMax)).catch((error) => {
      expect(hasReason(error, ErrorReason.SPEND_CAP_EXCEEDED)).toBe(true);
    });
    if (hold) admitted.push(hold);
    return hold !== undefined;
  };
  // All but the slice's second call.
  for (let left = 14; left > 0; left -= 1) expect(await call(other)).toBe(true);

  const telling = edge.tick();
  await told.promise;
  expect(await call(edge)).toBe(true);
  expect(await call(other)).toBe(false);
  answer.resolve();
  await telling;
  expect(await call(other)).toBe(false);
  expect(await call(edge)).toBe(false);
  expect(admitted).toHaveLength(16);
  for (const hold of admitted) await hold.settle(0n);
  await Promise.all([edge.close(), other.close()]);
  expect(await held(caller)).toBe(0n);
});

test('room that arrives only after its edge gave up waiting, or was refused elsewhere meanwhile, is held for nobody', async () => {
  await using second = await startTestBilling(started.database);
  const caller = someone();
  const key = { spendCapNanoUsd: costMax };
  /** Requests that reach the first process when their edge no longer waits. */
  const late: (() => Promise<unknown>)[] = [];
  const releases: Promise<unknown>[] = [];
  let slow = 2;
  const atOneAddress: BudgetsDeps['billing'] = {
    ...second.billing,
    lease: async (request, options) => {
      if (slow === 0) return second.billing.lease(request, options);
      slow -= 1;
      late.push(() => started.billing.lease(request, { ...options, timeoutMs: 60_000 }));
      throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'The answer takes too long.');
    },
    releaseHold: (request, options) => {
      const release = second.billing.releaseHold(request, { ...options, timeoutMs: 60_000 });
      releases.push(release);
      return release;
    },
  };
  const edge = new Budgets({ billing: atOneAddress, clock: systemClock, logger: silentLogger });
  const arrive = async (): Promise<void> => {
    await Promise.all(releases.splice(0));
    await Promise.allSettled(late.splice(0).map((question) => question()));
  };
  // Nothing was done, so its client may try again.
  await expect(edge.hold(caller, key, costMax)).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  await arrive();
  expect(await held(caller)).toBe(0n);

  const other = new Budgets({ billing: started.billing, clock: systemClock, logger: silentLogger });
  const fills = await other.hold(caller, key, costMax);
  slow = 1;
  await expect(edge.hold(caller, key, costMax)).rejects.toMatchObject({ reason: ErrorReason.SPEND_CAP_EXCEEDED });
  await fills.settle(0n);
  await arrive();
  expect(await held(caller)).toBe(0n);
});

test('a call that finds a cap full of slices waits until their holders have answered, and gets the room they can spare', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const ask = async (sliceNanoUsd: bigint) => {
    const [holderId, leaseId] = [uuidv7(), uuidv7()];
    const demands = [{ kind: BudgetKind.API_KEY, leaseId, limitNanoUsd: 16n * costMax, sliceNanoUsd }];
    await billing.billing.lease({ holderId, ...caller, costMaxNanoUsd: costMax, demands }, service);
    return { holderId, settlements: [{ leaseId, fencingToken: 1n }] };
  };
  const slice = await ask(costMax);
  for (let left = 14; left > 0; left -= 1) await ask(0n);
  const { recalls } = billing.deps;
  const { wait } = recalls;
  recalls.wait = async (...waiting) => {
    await billing.billing.settle(slice, service);
    await wait(...waiting);
  };
  await ask(0n);
});

test('leases are renewed in the order in which everyone locks them, so that nobody deadlocks', async () => {
  const caller = someone();
  const [first, second] = [uuidv7(), uuidv7()];
  const holderId = uuidv7();
  // In the table and in the report they are in the opposite order.
  for (const leaseId of [second, first]) {
    const demand = { kind: BudgetKind.API_KEY, leaseId, limitNanoUsd: costMax, sliceNanoUsd: 0n };
    const cost = { costMaxNanoUsd: 1n, demands: [demand] };
    await started.billing.lease({ holderId, ...caller, apiKeyId: uuidv7(), ...cost }, service);
  }
  const { pool } = started.deps.database;
  const other = await pool.connect();
  const lock = (id: string) => other.query('select from leases where id = $1 for update', [id]);
  await other.query('begin');
  const { rows } = await other.query('select pg_backend_pid() as pid');
  await lock(first);
  const settlements = [second, first].map((leaseId) => ({ leaseId, fencingToken: 1n, keep: true }));
  const settling = started.billing.settle({ holderId, settlements }, { ...service, timeoutMs: 60_000 });
  const waiting = 'select from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))';
  await waitFor(async () => (await pool.query(waiting, [rows[0].pid])).rowCount === 1, {
    description: 'the settlement to wait',
  });
  await lock(second);
  await other.query('commit');
  other.release();
  const { leases } = await settling;
  expect(leases.map(({ state }) => state)).toEqual([LeaseState.HELD, LeaseState.HELD]);
});
