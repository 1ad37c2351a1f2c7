import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { storeEvents } from '../db/store-events.ts';
import { testEvent, testId } from '../fixtures/test-events.ts';
import { asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';
import { createUsageMetrics } from '../metrics.ts';
import { type ChargeDeps, startChargeWorker } from './charge.ts';

const { logger, lines } = logCollector('info');
const registry = new Registry();
const metrics = createUsageMetrics(registry);
let usage: TestUsage;
let database: ServiceDatabase;
beforeAll(async () => {
  usage = await startTestUsage();
  database = await openServiceDatabase({ service: 'usage', connection: usage.databaseUrl, entities: [], logger });
});
afterAll(async () => {
  await database.close();
  await usage[Symbol.asyncDispose]();
});

/** Makes what is in the outbox as old as what a dead process left there. */
const leaveBehind = (storedAt = "now() - interval '5 seconds'") =>
  database.query({ text: `update charge_batches set stored_at = ${storedAt}` });

async function batchesLeft(): Promise<number> {
  const { rows } = await database.query<{ left: bigint }>({ text: 'select count(*) as left from charge_batches' });
  return Number(rows[0]!.left);
}

/** A Billing that charges each id once and loses its first answers. */
function forgetfulBilling(answersLost: number) {
  const charged = new Map<string, UsageEvent>();
  let calls = 0;
  const charge = async ({ events = [] }: { events?: unknown[] }) => {
    for (const event of events as UsageEvent[]) charged.set(event.id, event);
    calls += 1;
    if (calls <= answersLost) throw new Error('the answer was lost');
    return { refused: [{ eventId: (events[0] as UsageEvent).id, reason: 'an unknown price version' }] } as never;
  };
  return { charge, charged, calls: () => calls };
}

test('every event with a cost or a lease reaches Billing, even when answers are lost, and none stays behind', async () => {
  const costly = Array.from({ length: 1_200 }, (_, index) => testEvent(testNowMs - index));
  const leased = testEvent(testNowMs, { leaseIds: [testId(50)], usage: { costNanoUsd: 0n } });
  const free = testEvent(testNowMs, { usage: { costNanoUsd: 0n } });
  const all = [...costly, leased, free];
  await usage.client.record({ events: all.slice(0, 700) }, asService());
  await usage.client.record({ events: all.slice(700) }, asService());
  await usage.client.record({ events: all.slice(0, 700) }, asService());

  const waiting = async () => {
    const metrics = await usage.registry.metrics();
    const value = (name: string) =>
      new RegExp(`^${name}{service="usage",outbox="charges"} (.+)$`, 'm').exec(metrics)?.[1];
    return {
      batches: Number(value('gateway_outbox_waiting')),
      seconds: Number(value('gateway_outbox_oldest_seconds')),
    };
  };
  expect(await waiting()).toEqual({ batches: 2, seconds: expect.toSatisfy((seconds) => seconds > 0) });
  const billing = forgetfulBilling(2);
  await leaveBehind();
  const worker = startChargeWorker({ database, billing, metrics, logger });
  await waitFor(async () => (await batchesLeft()) === 0, { description: 'an empty outbox' });
  await worker.close();

  expect(new Set(billing.charged.keys())).toEqual(new Set([...costly, leased].map(({ id }) => id)));
  expect(billing.charged.get(leased.id)).toMatchObject({ id: leased.id, leaseIds: leased.leaseIds });
  expect(await waiting()).toEqual({ batches: 0, seconds: 0 });
  const refused = lines.filter(({ msg }) => msg === 'Billing refused a usage event for good: it is not charged');
  expect(refused).not.toHaveLength(0);
  expect(await registry.metrics()).toMatch(new RegExp(`^gateway_refused_charges_total ${refused.length}$`, 'm'));
});

test('many small batches left by an outage are passed on together', async () => {
  for (let batch = 0; batch < 30; batch += 1) {
    const events = [1, 2, 3].map(() => testEvent(testNowMs, { tenantId: testId(300 + batch) }));
    await usage.client.record({ events }, asService());
  }
  const billing = forgetfulBilling(0);
  await leaveBehind();
  const worker = startChargeWorker({ database, billing, metrics, logger });
  await waitFor(async () => (await batchesLeft()) === 0, { description: 'an empty outbox' });
  await worker.close();
  expect(billing.charged.size).toBe(90);
  expect(billing.calls()).toBe(1);
});

test.each([
  ['5 seconds ago', "now() - interval '5 seconds'"],
  ['before the database’s clock went back', "now() + interval '1 hour'"],
])(
  'what a dead process left behind %s is passed on by another within seconds, without anything new',
  async (_, storedAt) => {
    const events = [1, 2, 3].map(() => testEvent(testNowMs, { tenantId: testId(500) }));
    await usage.client.record({ events }, asService());
    await leaveBehind(storedAt);
    const billing = forgetfulBilling(0);
    const worker = startChargeWorker({ database, billing, metrics, logger });
    await waitFor(() => billing.charged.size === events.length, { description: 'the charge' });
    await worker.close();
  },
);

test.each([
  ['while Billing answers', 0],
  ['again after Billing failed', 1],
])('a batch that was just stored reaches Billing from memory, in order, %s', async (_when, answersLost) => {
  const billing = forgetfulBilling(answersLost);
  const worker = startChargeWorker({ database, billing, metrics, logger });
  const batches = [1, 2, 3].map((number) => ({
    id: uuidv7(),
    events: Array.from({ length: 600 }, () => testEvent(testNowMs, { tenantId: testId(200 + number) })),
  }));
  for (const batch of batches) {
    await sqlTransaction(database, (client) => storeEvents(client, batch.events, batch));
    worker.add(batch);
  }
  await waitFor(async () => (await batchesLeft()) === 0, { timeoutMs: 10_000, description: 'an empty outbox' });
  await worker.close();
  const sent = batches.flatMap(({ events }) => events.map(({ id }) => id));
  expect([...billing.charged.keys()]).toEqual(sent);
});

test('what a dead process left behind is passed on while new batches come without end', async () => {
  const left = testEvent(testNowMs, { tenantId: testId(700) });
  await usage.client.record({ events: [left] }, asService());
  await leaveBehind();
  const charged = new Set<string>();
  let isBusy = true;
  const charge = async ({ events = [] }: { events?: unknown[] }) => {
    for (const { id } of events as UsageEvent[]) charged.add(id);
    // Another is stored during each call.
    if (isBusy) add();
    return { refused: [] } as never;
  };
  const worker = startChargeWorker({ database, billing: { charge }, metrics, logger });
  const add = () => worker.add({ id: uuidv7(), events: [testEvent(testNowMs, { tenantId: testId(701) })] });
  add();
  await waitFor(() => charged.has(left.id), { description: 'the charge of what was left behind' });
  isBusy = false;
  await worker.close();
});

test('a call is charged at once, although much that an outage left behind still waits', async () => {
  for (const tenant of [800, 801]) {
    // Two of these do not fit into one call.
    const events = Array.from({ length: 501 }, () => testEvent(testNowMs, { tenantId: testId(tenant) }));
    await usage.client.record({ events }, asService());
  }
  await leaveBehind();
  const charged: string[] = [];
  const charge = async ({ events = [] }: { events?: unknown[] }) => {
    charged.push((events[0] as UsageEvent).tenantId);
    if (charged.length === 1) {
      worker.add({ id: uuidv7(), events: [testEvent(testNowMs, { tenantId: testId(802) })] });
    }
    return { refused: [] } as never;
  };
  const worker = startChargeWorker({ database, billing: { charge }, metrics, logger });
  await waitFor(async () => (await batchesLeft()) === 0, { description: 'an empty outbox' });
  await worker.close();
  expect(charged).toEqual([800, 802, 801].map(testId));
});

test('no more than 20,000 events wait in memory, and others can once those are charged', async () => {
  const answering = Promise.withResolvers<void>();
  let charged = 0;
  const charge = async ({ events = [] }: { events?: unknown[] }) => {
    await answering.promise;
    charged += events.length;
    return { refused: [] } as never;
  };
  const worker = startChargeWorker({ database, billing: { charge }, metrics, logger });
  const event = testEvent(testNowMs);
  const add = (count: number) => worker.add({ id: uuidv7(), events: Array(count).fill(event) });
  for (let batches = 0; batches < 21; batches += 1) add(1_000);
  answering.resolve();
  await waitFor(() => charged >= 20_000, { description: 'the charge of what waited' });
  add(1);
  await waitFor(() => charged % 1_000 === 1, { description: 'the charge of what came later', timeoutMs: 5_000 });
  await worker.close();
  expect(charged).toBe(20_001);
});

test('an outage of Billing is logged once when it begins and once when it is over', async () => {
  const billing = forgetfulBilling(3);
  const worker = startChargeWorker({ database, billing, metrics, logger });
  const batch = { id: uuidv7(), events: [testEvent(testNowMs, { tenantId: testId(400) })] };
  await sqlTransaction(database, (client) => storeEvents(client, batch.events, batch));
  const before = lines.length;
  worker.add(batch);
  await waitFor(() => billing.calls() === 4, { timeoutMs: 10_000, description: 'the charge behind three failures' });
  await worker.close();
  const told = lines
    .slice(before)
    .filter(({ msg }) => msg !== 'Billing refused a usage event for good: it is not charged');
  expect(told).toMatchObject([
    { level: 40, msg: 'passing usage events to Billing failed; it will be retried' },
    { level: 30, msg: 'passing usage events to Billing works again', failures: 3 },
  ]);
});

test('a close gives Billing three seconds for the call under way and all others together, and leaves the rest in the outbox', async () => {
  const answers: PromiseWithResolvers<never>[] = [];
  const charge: ChargeDeps['billing']['charge'] = (_request, { signal } = {}) => {
    const answer = Promise.withResolvers<never>();
    answers.push(answer);
    signal?.addEventListener('abort', () => answer.reject(signal.reason));
    if (signal?.aborted === true) answer.reject(signal.reason);
    return answer.promise;
  };
  const lastMsMax = 200;
  const worker = startChargeWorker({ database, billing: { charge }, metrics, logger }, lastMsMax);
  const batches = Array.from({ length: 3 }, () => ({
    id: uuidv7(),
    events: Array.from({ length: 600 }, () => testEvent(testNowMs, { tenantId: testId(600) })),
  }));
  for (const batch of batches) {
    await sqlTransaction(database, (client) => storeEvents(client, batch.events, batch));
    worker.add(batch);
  }
  await waitFor(() => answers.length === 1, { description: 'the call' });
  const closed = worker.close();
  answers[0]!.resolve({ refused: [] } as never);
  await closed;
  expect(answers).toHaveLength(2);
  expect(await batchesLeft()).toBe(2);
  await database.query({ text: 'delete from charge_batches' });
});
