import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { operator, service, startTestBilling, usageEvent } from '../../services/billing/fixtures/test-billing.ts';
import { lateMs, rememberedMs } from '../../services/billing/leasing/lapse.ts';
import { tidyLeases } from '../../services/billing/workers/tidy-leases.ts';
import { Budgets, type BudgetsDeps } from '../../services/models/limits/budgets.ts';
import { timeToLiveMs } from '../../services/models/limits/lease-settler.ts';
import { rowsOf } from '../support/postgres.ts';
import { silentLogger } from '../support/silent-logger.ts';

const costMax = 1_000_000n;
const someone = () => ({ tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() });

test('what a vanished edge held is free once it can no longer report calls, and what it had used stays held until charged', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const key = { spendCapNanoUsd: 100n * costMax };
  const vanished = new Budgets({ billing: billing.billing, clock: systemClock, logger: silentLogger });
  const used = await vanished.hold(caller, key, costMax);
  await used.settle(costMax);
  await vanished.tick();
  await vanished.hold(caller, key, costMax);
  const heldNow = async () => {
    const { rows } = await billing.deps.database.pool.query<{ held: bigint }>(
      'select sum(held_nano_usd)::bigint as held from spend where tenant_id = $1',
      [caller.tenantId],
    );
    return rows[0]!.held;
  };
  expect(await heldNow()).toBeGreaterThan(costMax);
  const heldByVanished = await heldNow();
  const heldAfter = async (travelMs: number): Promise<bigint> => {
    billing.travel(travelMs);
    const next = new Budgets({ billing: billing.billing, clock: systemClock, logger: silentLogger });
    await (await next.hold(caller, key, costMax)).settle(0n);
    await next.close();
    return heldNow();
  };
  // It may only be cut off, and its calls be charged when it is back.
  expect(await heldAfter(timeToLiveMs + lateMs - 10_000)).toBe(heldByVanished);
  expect(await heldAfter(10_000)).toBe(costMax);
  const event = usageEvent({ ...caller, costNanoUsd: costMax, leaseIds: [...used.leaseIds] });
  await billing.billing.charge({ events: [event] }, service);
  expect(await heldNow()).toBe(0n);
});

test('what an edge held that vanished before the database’s clock went back is free as soon as it would have been', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const key = { spendCapNanoUsd: 100n * costMax };
  const vanished = new Budgets({ billing: billing.billing, clock: systemClock, logger: silentLogger });
  await vanished.hold(caller, key, costMax);
  const isHeld = async () => {
    const held = 'select from spend where tenant_id = $1 and held_nano_usd > 0';
    return (await billing.deps.database.pool.query(held, [caller.tenantId])).rowCount! > 0;
  };
  billing.travel(-3_600_000);
  await tidyLeases(billing.deps);
  billing.travel(timeToLiveMs + lateMs - 10_000);
  await tidyLeases(billing.deps);
  expect(await isHeld()).toBe(true);
  billing.travel(10_000);
  await tidyLeases(billing.deps);
  expect(await isHeld()).toBe(false);
});

test('what an edge has kept since the database’s clock went back stays held, though others want room of it', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const present = new Budgets({ billing: billing.billing, clock: systemClock, logger: silentLogger });
  await present.hold(caller, { spendCapNanoUsd: 100n * costMax }, costMax);
  billing.travel(-3_600_000);
  const { pool } = billing.deps.database;
  // As a settlement leaves a lease from which room is wanted: it ends later, but does not count as settled.
  await pool.query(`update leases set expires_at = expires_at - interval '1 hour' where tenant_id = $1`, [
    caller.tenantId,
  ]);
  await tidyLeases(billing.deps);
  const held = 'select from spend where tenant_id = $1 and held_nano_usd > 0';
  expect((await pool.query(held, [caller.tenantId])).rowCount).toBeGreaterThan(0);
});

test('even if nobody asks, what a vanished edge held is freed, as is what it had used once no charge can come any more', async () => {
  await using billing = await startTestBilling();
  const { tenantId, userId, apiKeyId } = someone();
  await billing.billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PURCHASE, amountNanoUsd: 100n * costMax };
  await billing.billing.grantCredit(credit, operator);
  const holderId = uuidv7();
  const lease = async () => {
    const demands = [BudgetKind.API_KEY, BudgetKind.ORGANIZATION].map((kind) => {
      const limit = kind === BudgetKind.API_KEY ? { limitNanoUsd: 100n * costMax } : {};
      return { kind, leaseId: uuidv7(), sliceNanoUsd: costMax, ...limit };
    });
    await billing.billing.lease(
      {
        holderId,
        tenantId,
        userId,
        apiKeyId,
        costMaxNanoUsd: costMax,
        demands,
        timeToLive: durationFromMs(timeToLiveMs),
      },
      service,
    );
    return demands.map(({ leaseId }) => leaseId);
  };
  const settle = (leaseIds: readonly string[], usedNanoUsd: bigint, keep: boolean, fencingToken = 1n) => {
    const settlements = leaseIds.map((leaseId) => ({ leaseId, fencingToken, usedNanoUsd, keep }));
    return billing.billing.settle({ holderId, settlements, timeToLive: durationFromMs(timeToLiveMs) }, service);
  };
  const heldNow = async (): Promise<bigint[]> => {
    const { rows } = await billing.deps.database.pool.query<{ held: bigint }>(
      'select held_nano_usd as held from spend where tenant_id = $1',
      [tenantId],
    );
    return rows.map(({ held }) => held);
  };
  const [vanished, closed] = [await lease(), await lease()];
  await settle(vanished, costMax, true);
  // From another lease with this id, so it closes nothing.
  await settle(closed, 0n, false, 2n);
  await settle(closed, costMax, false);
  billing.travel(timeToLiveMs + lateMs - 60_000);
  const held = await heldNow();
  await tidyLeases(billing.deps);
  expect(await heldNow()).toEqual(held);
  billing.travel(60_000);
  await tidyLeases(billing.deps);
  expect(await heldNow()).toEqual([2n * costMax, 2n * costMax]);
  // The room of one that has lapsed may belong to someone else by now, and a closed one takes no more than it took.
  await settle([...vanished, ...closed], 2n * costMax, false);
  expect(await heldNow()).toEqual([2n * costMax, 2n * costMax]);
  billing.travel(rememberedMs - timeToLiveMs - lateMs);
  await tidyLeases(billing.deps);
  expect(await heldNow()).toEqual([costMax, costMax]);
  billing.travel(timeToLiveMs + lateMs);
  await tidyLeases(billing.deps);
  expect(await heldNow()).toEqual([0n, 0n]);
  expect((await billing.deps.database.pool.query('select from leases')).rowCount).toBe(0);
});

test('an organization whose overdue leases cannot be freed holds up no other’s', async () => {
  await using billing = await startTestBilling();
  const callers = [someone(), someone(), someone()];
  for (const caller of callers) {
    const demands = [{ kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: costMax }];
    await billing.billing.lease({ holderId: uuidv7(), ...caller, costMaxNanoUsd: costMax, demands }, service);
  }
  const broken = callers[0]!.tenantId;
  await rowsOf(billing.database.url, `alter table billing.spend add check (tenant_id <> '${broken}') not valid`);
  billing.travel(timeToLiveMs + lateMs);
  await expect(tidyLeases(billing.deps)).rejects.toThrow('1 of 3');
  const held = 'select tenant_id from spend where held_nano_usd > 0';
  expect((await billing.deps.database.pool.query(held)).rows).toEqual([{ tenant_id: broken }]);
});

test('a slice admits nothing after the end of its day: calls of the new day count there', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const key = { spendCapNanoUsd: 1_000n * costMax };
  const { rows } = await billing.deps.database.pool.query<{ left: number }>(
    "select extract(epoch from date_trunc('day', now(), 'UTC') + interval '1 day' - now())::float8 * 1000 as left",
  );
  // A second before midnight, by the database's clock.
  billing.travel(rows[0]!.left - 1_000);
  let nowMs = 0;
  const edge = new Budgets({ billing: billing.billing, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const before = await edge.hold(caller, key, costMax);
  await before.settle(costMax);
  const second = await edge.hold(caller, key, costMax);
  expect(second.leaseIds).toEqual(before.leaseIds);
  await second.settle(costMax);
  for (const tick of [1, 2, 3]) {
    nowMs += 500 + tick;
    billing.travel(500 + tick);
    await edge.tick();
  }
  const nextDay = await edge.hold(caller, key, costMax);
  await nextDay.settle(costMax);
  const event = usageEvent({ ...caller, costNanoUsd: costMax, leaseIds: [...nextDay.leaseIds] });
  await billing.billing.charge({ events: [event] }, service);
  const posted = await billing.deps.database.pool.query(
    `select posted_nano_usd as posted from spend
      where tenant_id = $1 and subject_id = $2 and period_start = (now() at time zone 'UTC')::date + 1`,
    [caller.tenantId, caller.apiKeyId],
  );
  expect(posted.rows).toEqual([{ posted: costMax }]);
  await edge.close();
});

test('a slice admits nothing after the end of the credit it was made of, though its edge cannot ask', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const { tenantId } = caller;
  await billing.billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  const startMs = await billing.deps.databaseNow(billing.deps.database.pool);
  const expiresAt = timestampFromMs(startMs + 60_000);
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 1_000n * costMax };
  await billing.billing.grantCredit({ ...credit, expiresAt }, operator);
  let isAway = false;
  const reached = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
    if (isAway) throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away.');
    return ask();
  };
  const client: BudgetsDeps['billing'] = {
    lease: (request, options) => reached(() => billing.billing.lease(request, options)),
    settle: (request, options) => reached(() => billing.billing.settle(request, options)),
    releaseHold: (request, options) => reached(() => billing.billing.releaseHold(request, options)),
  };
  let nowMs = 0;
  const edge = new Budgets({ billing: client, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const isAdmittedHere = async (): Promise<boolean> => {
    const hold = await edge.hold(caller, undefined, costMax);
    await hold.settle(costMax);
    return hold.costAllowedNanoUsd === null;
  };
  const pass = async (ms: number): Promise<void> => {
    nowMs += ms;
    billing.travel(ms);
    await edge.tick();
  };
  while (nowMs < 28_500) {
    expect(await isAdmittedHere()).toBe(true);
    await pass(1_500);
  }
  // From here on a slice would outlast the credit, so each call has a hold of its own.
  await pass(2_500);
  expect(await isAdmittedHere()).toBe(false);
  isAway = true;
  await pass(60_001 - nowMs);
  await expect(isAdmittedHere()).rejects.toThrow('Billing is away.');
  isAway = false;
  await expect(isAdmittedHere()).rejects.toThrow('credit');
  await edge.close();
});

test('a refused call to a model without a price changes nothing for the calls that run under the same slice', async () => {
  await using billing = await startTestBilling();
  const caller = someone();
  const key = { spendCapNanoUsd: 1_000n * costMax };
  let nowMs = 0;
  const edge = new Budgets({ billing: billing.billing, clock: { monotonic: () => nowMs }, logger: silentLogger });
  const running = await edge.hold(caller, key, costMax);
  // Whether the user and the organization are limited has to be asked again, while the key still has its slice.
  nowMs += 4_000;
  await expect(edge.hold(caller, key, null)).rejects.toThrow('no price');
  const held = async (): Promise<bigint> => {
    nowMs += 2_000;
    await edge.tick();
    const { rows } = await billing.deps.database.pool.query<{ held: bigint }>(
      'select held_nano_usd as held from spend where subject_id = $1',
      [caller.apiKeyId],
    );
    return rows[0]!.held;
  };
  expect(await held()).toBeGreaterThanOrEqual(costMax);
  await running.settle(0n);
  expect(await held()).toBe(0n);
  await edge.close();
});
