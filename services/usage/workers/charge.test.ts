import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { testEvent, testId } from '../fixtures/test-events.ts';
import { asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';
import { startChargeWorker } from './charge.ts';

const { logger, lines } = logCollector();
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

test('every event with a cost or a lease reaches Billing, also when answers are lost, and none stays behind', async () => {
  const costly = Array.from({ length: 1_200 }, (_, index) => testEvent(testNowMs - index));
  const leased = testEvent(testNowMs, { leaseIds: [testId(50)], usage: { costNanoUsd: 0n } });
  const free = testEvent(testNowMs, { usage: { costNanoUsd: 0n } });
  const all = [...costly, leased, free];
  await usage.client.record({ events: all.slice(0, 700) }, asService());
  await usage.client.record({ events: all.slice(700) }, asService());
  await usage.client.record({ events: all.slice(0, 700) }, asService());

  const billing = forgetfulBilling(2);
  const worker = startChargeWorker({ database, billing, logger });
  await expect(worker.drain()).rejects.toThrow('lost');
  await worker.drain().catch(() => {});
  await worker.drain();
  await worker.close();

  expect(new Set(billing.charged.keys())).toEqual(new Set([...costly, leased].map(({ id }) => id)));
  expect(billing.charged.get(leased.id)).toMatchObject({ id: leased.id, leaseIds: leased.leaseIds });
  const { rows } = await database.query<{ left: bigint }>({ text: 'select count(*) as left from charge_batches' });
  expect(rows[0]?.left).toBe(0n);
  expect(lines.filter(({ msg }) => msg === 'billing refused an event for good')).not.toHaveLength(0);
});
