import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { openJobsDatabase } from '../../services/jobs/fixtures/test-queue.ts';
import { renewHolds } from '../../services/jobs/workers/housekeeping.ts';
import { startJobWorker } from '../../services/jobs/workers/start.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { waitFor } from '../support/wait-for.ts';

/** At one o'clock of a day to come, and can be moved ahead: no cap's day ends during the test. */
const dayMs = 86_400_000;
let aheadMs = dayMs - (Date.now() % dayMs) + 3_600_000;
const clock: Clock = { now: () => Date.now() + aheadMs, monotonic: () => performance.now() + aheadMs };

let bench: InferenceBench;
let database: ServiceDatabase;
beforeAll(async () => {
  // Nothing takes the jobs, so only housekeeping keeps their room.
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

/** Lets time pass for all. Billing uses its database's clock, so its leases are made older instead. */
async function pass(minutes: number): Promise<void> {
  aheadMs += minutes * 60_000;
  await database.pool.query(`update billing.leases set expires_at = expires_at - $1 * interval '1 minute'`, [minutes]);
}

/** A key whose whole cap is held by a job. */
async function keyWithJob(): Promise<{ key: string; jobId: string }> {
  bench.session = await bench.gateway.login();
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
  const submitted = await call(key, { background: true });
  expect(submitted.status, submitted.text).toBe(202);
  expect(await outcome(key)).toBe('spend_cap_exceeded');
  return { key, jobId: submitted.json.id };
}

test('a job that waits for hours, or runs for hours, keeps its room; without renewal the room lapses', async () => {
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
  await waitFor(async () => (await outcome(forgotten.key)) === 'admitted', {
    description: 'the room that nobody renewed to be free',
    timeoutMs: 10_000,
    intervalMs: 50,
  });
  expect([await outcome(waiting.key), await outcome(running.key)]).toEqual([
    'spend_cap_exceeded',
    'spend_cap_exceeded',
  ]);
});

test('a job whose lapsed room went to another waits until there is room again, and one for which there is runs at once', async () => {
  const { gateway, simulator } = bench;
  const [given, free] = [await keyWithJob(), await keyWithJob()];
  await database.pool.query('update jobs set hold_expires_at = null');
  for (let times = 0; times < 2; times += 1) await pass(45);
  bench.session = await gateway.login();
  // The room of the first goes to a second job of its key.
  const second = await waitFor(
    async () => {
      const answer = await call(given.key, { background: true });
      return answer.status === 202 && answer.json.id;
    },
    { description: 'the lapsed room to be free', intervalMs: 50 },
  );
  const held = Promise.withResolvers<void>();
  simulator.reset();
  simulator.otherwise(() => ({ hold: { until: held.promise }, tokens: 5 }));
  const { switchboard } = gateway.gateway;
  const worker = await startJobWorker({
    connection: gateway.env.databaseUrl!,
    inference: switchboard.client('jobs', InferenceService),
    billing: switchboard.client('jobs', BillingService),
    keys: switchboard.client('jobs', KeysService),
    auth: switchboard.client('jobs', AuthService),
    bodiesBytesMax: 1024 ** 3,
    registry: new Registry(),
    drainMs: 1_000,
    clock,
    logger: silentLogger,
  });
  const job = async (id: string) => (await gateway.call('GET', `/api/v1/jobs/${id}`, bench.session)).json;
  const states = async () => Promise.all([given.jobId, second, free.jobId].map(async (id) => (await job(id)).status));
  await waitFor(async () => (await states()).join() === 'queued,in_progress,in_progress', {
    description: 'the others to run, and the first to wait',
  });
  held.resolve();
  for (const id of [second, free.jobId]) {
    await waitFor(async () => (await job(id)).status === 'completed', { description: `the end of ${id}` });
  }
  const hasEnded = async () => {
    // It may have to wait for half a minute.
    await database.pool.query('update jobs set available_at = now() where id = $1 and status = 1', [
      given.jobId.replace('job_', ''),
    ]);
    return (await job(given.jobId)).status === 'completed';
  };
  await waitFor(hasEnded, { description: 'the end of the first' });
  await worker.close();
});
