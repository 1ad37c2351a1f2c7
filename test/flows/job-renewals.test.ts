import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { openJobsDatabase } from '../../services/jobs/fixtures/test-queue.ts';
import { renewHolds } from '../../services/jobs/workers/housekeeping.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

/** At one o'clock of a day to come, and can be moved ahead: no cap's day ends during the test. */
const dayMs = 86_400_000;
let aheadMs = dayMs - (Date.now() % dayMs) + 3_600_000;
const clock: Clock = { now: () => Date.now() + aheadMs, monotonic: () => performance.now() + aheadMs };

let bench: InferenceBench;
let database: ServiceDatabase;
beforeAll(async () => {
  // Nobody takes the jobs: whatever keeps their room is the housekeeping.
  bench = await startInferenceBench({ clock, worker: false });
  database = await openJobsDatabase(bench.gateway.env.databaseUrl!);
  const price = { model: 'sim-chat', output_per_million_tokens_usd: 10 };
  expect((await bench.gateway.call('POST', '/api/v1/admin/prices', bench.session, price)).status).toBe(201);
});
afterAll(async () => {
  await database?.close();
  await bench?.[Symbol.asyncDispose]();
});

/** A call that costs a cent at most. */
const call = (key: string, fields: object = {}) =>
  bench.gateway.call('POST', '/v1/chat/completions', key, {
    model: 'sim-chat',
    messages: [{ role: 'user', content: 'Hello' }],
    max_tokens: 1_000,
    ...fields,
  });
const outcome = async (key: string): Promise<string> => {
  const { status, json } = await call(key);
  return status === 200 ? 'admitted' : json.error.code;
};
const housekeeping = () =>
  renewHolds({ database, billing: bench.gateway.gateway.switchboard.client('jobs', BillingService), clock });

/** Time passes for all: Billing goes by the clock of its database, so that its leases grow older instead. */
async function pass(minutes: number): Promise<void> {
  aheadMs += minutes * 60_000;
  await database.pool.query(`update billing.leases set expires_at = expires_at - $1 * interval '1 minute'`, [minutes]);
}

/** A key whose whole cap is held by a job. */
async function keyWithJob(): Promise<string> {
  bench.session = await bench.gateway.login();
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
  const submitted = await call(key, { background: true });
  expect(submitted.status, submitted.text).toBe(202);
  expect(await outcome(key)).toBe('spend_cap_exceeded');
  return key;
}

test('a job that waits for hours, and one that runs for hours, keep their room; without renewal it lapses', async () => {
  const [waiting, running, forgotten] = [await keyWithJob(), await keyWithJob(), await keyWithJob()];
  const { rows } = await database.pool.query<{ id: string }>('select id from jobs order by id');
  await database.pool.query(`update jobs set status = 2, lease_expires_at = now() + interval '1 day' where id = $1`, [
    rows[1]!.id,
  ]);
  await database.pool.query('update jobs set hold_expires_at = null where id = $1', [rows[2]!.id]);
  // Three hours, and the day is not over.
  for (let times = 0; times < 4; times += 1) {
    await pass(45);
    await housekeeping();
  }
  await waitFor(async () => (await outcome(forgotten)) === 'admitted', {
    description: 'the room that nobody renewed to be free',
    timeoutMs: 10_000,
    intervalMs: 50,
  });
  expect([await outcome(waiting), await outcome(running)]).toEqual(['spend_cap_exceeded', 'spend_cap_exceeded']);
});
