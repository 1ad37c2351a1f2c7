import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway, type TestGateway, testSecrets } from '../support/gateway.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type StartedProcess, startProcess } from '../support/processes.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let database: TestDatabase;
let simulator: UpstreamSimulator;
let gateway: TestGateway;
let dataDir: string;
let session: string;

beforeAll(async () => {
  database = await createTestDatabase();
  simulator = await startUpstreamSimulator();
  gateway = await startTestGateway({
    worker: false,
    databaseUrl: database.url,
    env: { UPSTREAM_BASE_URL: simulator.url },
  });
  session = await gateway.login();
  await gateway.call('POST', '/api/v1/admin/prices', session, {
    model: 'sim-chat',
    input_per_million_tokens_usd: 100,
    output_per_million_tokens_usd: 100,
  });
  dataDir = mkdtempSync(join(tmpdir(), 'worker-'));
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await simulator?.close();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** `npm run worker` beside the gateway, on the same data folder as the worker before it. */
async function startWorker(): Promise<StartedProcess & { metricsUrl: string }> {
  const names = ['keys', 'auth', 'usage', 'billing', 'models'];
  const worker = startProcess({
    script: 'services/cmd/worker.ts',
    env: {
      DATABASE_URL: database.url,
      DATA_DIR: dataDir,
      RPC_URLS: names.map((name) => `${name}=${gateway.gateway.rpcUrl}`).join(','),
      ...testSecrets,
      METRICS_PORT: '0',
      LOG_LEVEL: 'error',
    },
  });
  const [, metricsUrl] = await worker.waitForLine(/takes jobs\. Metrics: (\S+)/);
  return Object.assign(worker, { metricsUrl: metricsUrl! });
}

test('a worker killed before its call, during it, and between the answer and its commit: one result, one charge, and none without a result', async () => {
  const key = await gateway.createKey(session, { spend_cap_usd: 50 });
  // One call uses up its cap, so the second run of that job finds room only in what the first run used.
  const spent = await gateway.createKey(session, { spend_cap_usd: 0.0001 });
  // It has no cap until its job was answered, and then one without room.
  const capped = await gateway.createKey(session);
  // It is deleted between the two runs of its job.
  const deleted = await gateway.createKey(session);
  const submit = async (what: string, { key: secret } = key): Promise<string> => {
    const body = { model: 'sim-chat', messages: [{ role: 'user', content: what }], max_tokens: 50, background: true };
    const answer = await gateway.call('POST', '/v1/chat/completions', secret, body);
    expect(answer.status, answer.text).toBe(202);
    return answer.json.id;
  };
  const job = async (id: string) => (await gateway.call('GET', `/api/v1/jobs/${id}`, session)).json;
  const uuidOf = (id: string) => id.slice(4).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  const callsOf = (what: string) => simulator.requests.filter(({ json }) => JSON.stringify(json).includes(what));
  const events = async () => (await gateway.call('GET', '/api/v1/usage/history', session)).json.data;
  const owner = new pg.Client(database.url);
  const other = new pg.Client(database.url);
  await Promise.all([owner.connect(), other.connect()]);
  const { promise: answered, resolve: answerNow } = Promise.withResolvers<void>();
  const { promise: never, resolve: atLast } = Promise.withResolvers<void>();
  try {
    await using first = await startWorker();
    // During the call: the upstream has the request and does not answer.
    simulator.next({ hold: { until: never } });
    const during = await submit('during the call');
    await simulator.waitFor(({ operation }) => operation === 'chat');

    // Between the answer and its commit: the row is locked, so that the worker has the answer but cannot record it.
    simulator.next({ hold: { until: answered } });
    const unrecorded = await submit('after the answer', spent);
    await waitFor(() => callsOf('after the answer').length === 1, { description: 'the second call' });
    simulator.next({ hold: { until: answered } });
    const uncapped = await submit('after an answer without a cap', capped);
    await waitFor(() => callsOf('after an answer').length === 1, { description: 'the third call' });
    simulator.next({ hold: { until: answered } });
    const lost = await submit('an answer lost', deleted);
    await waitFor(() => callsOf('an answer lost').length === 1, { description: 'the fourth call' });
    await owner.query('begin');
    await owner.query('select 1 from jobs.jobs where id = any($1::uuid[]) for update', [
      [unrecorded, uncapped, lost].map(uuidOf),
    ]);
    answerNow();
    const metered = await waitFor(
      async () => {
        const found = await events();
        return found.length === 3 && found;
      },
      { description: 'the usage events of the answers that were not committed', timeoutMs: 10_000 },
    );
    expect(metered).toMatchObject(Array(3).fill({ success: true }));
    await waitFor(async () => (await owner.query('select from billing.transactions where type = 1')).rowCount === 3, {
      description: 'the answers to be charged',
    });

    // Before the call: Keys does not say whether the caller may still make it.
    await other.query('begin');
    await other.query('lock table keys.digests in access exclusive mode');
    const before = await submit('before the call');
    await waitFor(
      async () => {
        const { rows } = await other.query('select status from jobs.jobs where id = $1', [uuidOf(before)]);
        return rows[0].status === 2;
      },
      { description: 'the last job to be taken' },
    );
    await first.kill();
    // A killed client's statement continues in Postgres; here it ends with the client.
    await other.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'modelgateway-jobs' and wait_event_type = 'Lock' and datname = current_database()`);
    await Promise.all([owner.query('rollback'), other.query('rollback')]);
    const cap = { spend_cap_usd: 0 };
    expect((await gateway.call('PATCH', `/api/v1/api-keys/${capped.id}`, session, cap)).status).toBe(200);
    expect((await gateway.call('DELETE', `/api/v1/api-keys/${deleted.id}`, session)).status).toBe(204);
    expect(callsOf('before the call')).toHaveLength(0);
    const jobs = [during, unrecorded, uncapped, before];
    const statuses = await Promise.all([...jobs, lost].map(async (id) => (await job(id)).status));
    expect(statuses).toEqual(Array(5).fill('in_progress'));

    // The leases end half a minute after its last sign of life; here that time is made to have passed.
    const { rowCount } = await owner.query(
      `update jobs.jobs set lease_expires_at = lease_expires_at - interval '30 seconds' where status = 2`,
    );
    expect(rowCount).toBe(5);
    await using second = await startWorker();
    using watch = startStopwatch();
    for (const id of jobs) {
      const completed = await waitFor(
        async () => {
          const found = await job(id);
          return found.status === 'completed' && found;
        },
        { description: `the end of ${id}`, timeoutMs: 20_000, intervalMs: 20 },
      );
      expect(completed.result.choices).toHaveLength(1);
    }
    await waitFor(async () => (await job(lost)).status === 'failed', {
      description: 'the end of the job without a key',
    });
    const refunds = await waitFor(
      async () => {
        const { rows } = await owner.query(
          `select charge.usage_event_id, refund.amount_nano_usd + charge.amount_nano_usd as kept, refund.description
           from billing.transactions refund join billing.transactions charge on charge.id = refund.reverses_id`,
        );
        return rows.length > 0 && rows;
      },
      { description: 'what it was charged to be given back' },
    );
    expect(refunds).toEqual([
      {
        usage_event_id: expect.stringMatching(new RegExp(`${uuidOf(lost).slice(14)}$`)),
        kept: '0',
        description: `${lost} has no result: what its call was charged is given back.`,
      },
    ]);
    expect(watch.ms).toBeLessThan(29_000);
    // Counted once the worker has heard that the end is stored.
    await expect
      .poll(async () => (await fetch(second.metricsUrl)).text())
      .toMatch(/^gateway_jobs_ended_total\{outcome="completed"\} 4$/m);
    const calls = [callsOf('during'), callsOf('after the'), callsOf('after an'), callsOf('before'), callsOf('lost')];
    expect(calls.map(({ length }) => length)).toEqual([2, 2, 2, 1, 1]);

    const charged = await waitFor(
      async () => {
        const { rows } = await owner.query(
          'select usage_event_id from billing.transactions where usage_event_id in (select id from usage.events)',
        );
        return rows.length >= 5 && rows;
      },
      { description: 'the charges', timeoutMs: 10_000 },
    );
    // Everything still on its way, such as what the killed worker left in its journal, has arrived when the second has ended.
    second.signal('SIGTERM');
    await second.exited();
    expect(charged).toHaveLength(5);
    // The call that was interrupted and made again does not count as failed either.
    const outcomes = (await events()).map(({ success }: { success: boolean }) => success);
    expect(outcomes).toEqual(Array(5).fill(true));
    const { rows: held } = await owner.query(
      'select subject_id, held_nano_usd from billing.spend where held_nano_usd > 0',
    );
    expect(held).toEqual([]);
  } finally {
    atLast();
    await Promise.all([owner.end(), other.end()]);
  }
});
