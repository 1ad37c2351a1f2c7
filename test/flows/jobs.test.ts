import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { attemptsMax } from '../../services/jobs/domain/retry.ts';
import { openJobsDatabase } from '../../services/jobs/fixtures/test-queue.ts';
import { workerDefaults } from '../../services/jobs/workers/job-worker.ts';
import { parseJobId } from '../../services/shared/ids.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { callerOfKey } from '../support/grpc-client.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { rowsOf } from '../support/postgres.ts';
import type { Behaviour } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

const clock = new ClockAhead();

/** For tokens of either kind. */
const dollarPerMillion = { input_per_million_tokens_usd: 1, output_per_million_tokens_usd: 1 };

let bench: InferenceBench;
const call = (method: string, path: string, token: string, body?: unknown) =>
  bench.gateway.call(method, path, token, body);
beforeAll(async () => {
  bench = await startInferenceBench({ clock });
  await bench.admin('POST', '/prices', { model: 'sim-chat', ...dollarPerMillion });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

const chat = { model: 'sim-chat', messages: [{ role: 'user', content: 'Hello' }] };

async function submit(key = bench.key.key, fields: object = {}) {
  return call('POST', '/v1/chat/completions', key, { ...chat, ...fields, background: true });
}
// biome-ignore lint/suspicious/noExplicitAny: a job as JSON; the assertions are the types.
const job = async (id: string): Promise<any> => (await call('GET', `/api/v1/jobs/${id}`, bench.session)).json;
const ended = (id: string) =>
  waitFor(
    async () => {
      const found = await job(id);
      return ['completed', 'failed', 'cancelled'].includes(found.status) && found;
    },
    { description: `the end of ${id}`, timeoutMs: 10_000, intervalMs: 10 },
  );
const inState = (id: string, status: string) =>
  waitFor(async () => (await job(id)).status === status, { description: `${id} being ${status}`, intervalMs: 5 });
const cancel = (id: string) => call('POST', `/api/v1/jobs/${id}/cancel`, bench.session);

type EventJson = { occurred_at: string; success: boolean; cost_usd: number; error_code: string | null };
const events = async (keyId: string): Promise<EventJson[]> =>
  (await call('GET', `/api/v1/usage/history?limit=100&api_key_id=${keyId}`, bench.session)).json.data;
/** All events of a key, once there are `count` of them. */
const eventsOf = (keyId: string, count: number) =>
  waitFor(
    async () => {
      const found = await events(keyId);
      return found.length >= count && found;
    },
    { description: `${count} events of the key` },
  );

test('large submissions take turns, keep no other job from being queued, and are dropped if their client has gone', async () => {
  await bench.renew();
  const { id } = (await call('GET', '/api/v1/organization', bench.session)).json;
  await bench.admin('PATCH', `/organizations/${id}`, { rate_limits: { tokens_per_minute: 10_000_000 } });
  const database = await openJobsDatabase(bench.gateway.env.databaseUrl!);
  const disk = await database.pool.connect();
  // As if the disk had stalled: large bodies are stored by themselves.
  await disk.query('begin');
  await disk.query('lock table job_bodies in exclusive mode');
  const large = Array.from({ length: 24 }, () => submit(bench.key.key, { user: 'x'.repeat(100_000) }));
  const writers =
    'select from pg_locks join pg_database on oid = database where datname = current_database() and not granted';
  await waitFor(async () => (await database.pool.query(writers)).rows.length > 0, {
    description: 'a body to be written',
  });
  const small = await Promise.all(Array.from({ length: 6 }, () => submit()));
  expect(small.map(({ status }) => status)).toEqual(small.map(() => 202));
  const total = async () => (await call('GET', '/api/v1/jobs/stats', bench.session)).json.total;
  const before = await total();
  const impatient = { contextValues: callerContext(callerOfKey(bench.session, bench.key.id)), timeoutMs: 500 };
  const what = { operation: Operation.CHAT_COMPLETIONS, model: chat.model };
  const body = Buffer.from(JSON.stringify({ ...chat, user: 'x'.repeat(100_000) }));
  const jobs = bench.gateway.gateway.switchboard.client('edge', JobsService);
  const left = jobs.submit({ ...what, contentType: 'application/json', body }, impatient);
  await expect(left).rejects.toMatchObject({ reason: ErrorReason.DEADLINE_EXCEEDED });
  await disk.query('commit');
  disk.release();
  await database.close();
  for (const { status, json } of await Promise.all(large)) {
    expect(status).toBe(202);
    await ended(json.id);
  }
  expect(await total()).toBe(before + large.length);
});

test('a body submitted by a session reaches the upstream as it was sent, including numbers that a double cannot hold', async () => {
  await bench.renew();
  const rest = '"messages": [{"role":"user","content":"Hi"}],\n "seed": 9007199254740993, "temperature": 1.0 }';
  const submitted = await call(
    'POST',
    '/api/v1/jobs',
    bench.session,
    `{"endpoint":"/v1/chat/completions", "body": {"model":"sim-chat", ${rest}}`,
  );
  expect(submitted.status, submitted.text).toBe(202);
  expect((await ended(submitted.json.id)).status).toBe('completed');
  expect(bench.simulator.requests.at(-1)!.body.toString()).toBe(`{"model":"sim-chat", ${rest}`);
});

/** An upstream that is away for half a minute parks a job after its first attempt; `unpark` lets it go on. */
const away: Behaviour = { instead: { status: 503, headers: { 'retry-after': '30' }, body: { error: 'away' } } };
async function parked(fields: object = {}, key = bench.key.key): Promise<string> {
  bench.simulator.next(away);
  const { json } = await submit(key, fields);
  await waitFor(
    async () => {
      const found = await job(json.id);
      return found.status === 'queued' && found.started_at !== null;
    },
    { description: 'the job to wait for its second attempt' },
  );
  // The deployment works again.
  await call('POST', '/v1/chat/completions', bench.session, chat);
  return json.id;
}
const unpark = (): void => {
  clock.aheadMs += 31_000;
};

describe('cancellation', () => {
  test('a queued job never starts, a running one has its upstream aborted within a second, an ended one stays as it is', async () => {
    await bench.renew();
    const { simulator } = bench;
    const held = Promise.withResolvers<void>();
    simulator.otherwise(() => ({ hold: { until: held.promise } }));
    const { perSubject } = workerDefaults.bounds;
    const ids: string[] = [];
    for (let number = 0; number < perSubject + 2; number += 1) ids.push((await submit()).json.id);
    await waitFor(() => simulator.requests.length === perSubject, { description: 'as many calls as a key may have' });
    const [first] = ids;
    const [queued, next] = ids.slice(perSubject);

    // Limited per key: two wait while the others run.
    const { status, created_at } = await job(queued!);
    expect(status).toBe('queued');
    const stats = (await call('GET', '/api/v1/jobs/stats', bench.session)).json;
    expect([stats.by_status.queued, stats.oldest_queued_at]).toEqual([2, created_at]);
    const cancelledQueued = await cancel(queued!);
    expect(cancelledQueued.json).toMatchObject({ status: 'cancelled', started_at: null, result: null, usage: null });

    const running = await job(first!);
    expect(running.status).toBe('in_progress');
    const askedMs = performance.now();
    const answer = await cancel(first!);
    expect([answer.status, answer.json.status]).toEqual([200, 'cancelled']);
    expect(Date.parse(answer.json.expires_at) - Date.parse(answer.json.cancelled_at)).toBe(86_400_000);
    const left = await simulator.waitFor(({ outcome }) => outcome === 'client-left', { timeoutMs: 1_000 });
    expect(left.endedAtMs! - askedMs).toBeLessThan(1_000);
    expect((await cancel(first!)).json).toEqual(answer.json);

    // The freed slot goes to the next one.
    await waitFor(async () => (await job(next!)).status === 'in_progress', { description: 'the last job to start' });
    held.resolve();
    simulator.otherwise('plain');
    for (const id of ids.filter((one) => one !== first && one !== queued)) {
      expect((await ended(id)).status).toBe('completed');
    }
    // Neither ran a second time.
    expect(simulator.requests).toHaveLength(perSubject + 1);
    // A cancelled job has neither succeeded nor failed: no report counts it.
    const all = await eventsOf(bench.key.id, perSubject);
    expect(all.map(({ success }) => success)).toEqual(Array.from({ length: perSubject }, () => true));
    expect((await job(first!)).status).toBe('cancelled');
  });

  test('a job between two attempts never starts again', async () => {
    await bench.renew();
    const id = await parked();
    expect((await cancel(id)).json.status).toBe('cancelled');
    const seen = bench.simulator.requests.length;
    unpark();
    const other = await submit();
    expect((await ended(other.json.id)).status).toBe('completed');
    expect(bench.simulator.requests).toHaveLength(seen + 1);
  });

  test('a job that has not ended cannot be deleted', async () => {
    await bench.renew();
    const held = Promise.withResolvers<void>();
    bench.simulator.next({ hold: { until: held.promise } });
    const { json } = await submit();
    await inState(json.id, 'in_progress');
    const refusal = await call('DELETE', `/api/v1/jobs/${json.id}`, bench.session);
    expect([refusal.status, refusal.json.error.code]).toEqual([409, 'conflict']);
    held.resolve();
    expect((await ended(json.id)).status).toBe('completed');
  });
});

describe('attempts', () => {
  test('a transient fault of the upstream is retried: the job is one request that succeeded, charged once', async () => {
    await bench.renew();
    bench.simulator.next('server-error');
    const { json } = await submit();
    expect(await ended(json.id)).toMatchObject({ status: 'completed', error: null });
    expect(bench.simulator.requests).toHaveLength(2);
    // An event of the first attempt would have been stored before that of the second.
    const all = await eventsOf(bench.key.id, 1);
    expect(all.map(({ success, cost_usd: cost }) => [success, cost > 0])).toEqual([[true, true]]);
    const { data } = await bench.admin('GET', '/jobs?limit=1');
    expect(data[0]).toMatchObject({ id: json.id, attempts: 2, api_key_id: bench.key.id });
  });

  test('a job whose last attempt also fails is one request that failed', async () => {
    await bench.renew();
    const id = await parked();
    for (let attempt = 2; attempt <= attemptsMax; attempt += 1) {
      bench.simulator.next(away);
      const seen = bench.simulator.requests.length;
      unpark();
      await waitFor(() => bench.simulator.requests.length > seen, { description: `attempt ${attempt}` });
      await waitFor(async () => (await job(id)).status !== 'in_progress', { description: `the end of ${attempt}` });
      // The deployment works again.
      await call('POST', '/v1/chat/completions', bench.session, chat);
    }
    expect(await ended(id)).toMatchObject({ status: 'failed' });
    const all = await eventsOf(bench.key.id, 1);
    expect(all).toMatchObject([{ success: false, cost_usd: 0 }]);
  });

  describe('are not made while no deployment takes calls', () => {
    let deployment: string;
    beforeAll(async () => {
      const { deployments } = await bench.admin('GET', '/models/sim-chat');
      deployment = `/deployments/${deployments[0].id}`;
    });
    /** How often a worker has taken jobs, whether or not a deployment took their call. */
    const timesTaken = async (ids: readonly string[]): Promise<number> => {
      const text = 'select sum(fence)::int as times from jobs.jobs where id = any($1)';
      return (await rowsOf(bench.gateway.env.databaseUrl!, text, [ids.map(parseJobId)]))[0].times;
    };
    const attemptsOf = async (id: string): Promise<number> =>
      (await bench.admin('GET', '/jobs?limit=100')).data.find((found: { id: string }) => found.id === id).attempts;

    test('a job of a stopped model waits, and runs once the model serves again', async () => {
      await bench.renew();
      const id = await parked();
      await bench.admin('PATCH', deployment, { enabled: false });
      await waitFor(async () => (await call('POST', '/v1/chat/completions', bench.session, chat)).status === 503, {
        description: 'the model to be stopped',
      });
      unpark();
      await waitFor(async () => (await timesTaken([id])) > 2, { description: 'two tries after the first' });
      await inState(id, 'queued');
      expect(await attemptsOf(id)).toBe(1);
      await bench.admin('PATCH', deployment, { enabled: true });
      expect((await ended(id)).status).toBe('completed');
      expect(await attemptsOf(id)).toBe(2);
    });

    test('jobs of a model that takes one call at a time run one after the other, whoever else calls it', async () => {
      await bench.renew();
      const { simulator } = bench;
      await bench.admin('PATCH', deployment, { concurrency_limit: 1 });
      const callNow = () => call('POST', '/v1/chat/completions', bench.session, chat);
      await waitFor(async () => (await Promise.all([callNow(), callNow()])).some(({ status }) => status === 503), {
        description: 'the limit to hold',
      });
      const held = Promise.withResolvers<void>();
      simulator.next({ hold: { until: held.promise } });
      const seen = simulator.requests.length;
      const other = callNow();
      await waitFor(() => simulator.requests.length > seen, { description: 'the model to be full' });
      const ids: string[] = [];
      while (ids.length < 12) ids.push((await submit()).json.id);
      await waitFor(async () => (await timesTaken(ids)) > 0, { description: 'a job to be tried' });
      // None of them has started: no deployment took its call.
      expect((await Promise.all(ids.map(job))).map(({ started_at: at }) => at)).toEqual(ids.map(() => null));
      held.resolve();
      expect((await other).status).toBe(200);
      for (const id of ids) expect((await ended(id)).status).toBe('completed');
      const all = await eventsOf(bench.key.id, ids.length);
      expect(all.map(({ success }) => success)).toEqual(ids.map(() => true));
      for (const id of ids) expect(await attemptsOf(id)).toBe(1);
      await bench.admin('PATCH', deployment, { concurrency_limit: 0 });
    });
  });

  test('a request that the upstream refuses fails at once, with the error of the synchronous call', async () => {
    await bench.renew();
    bench.simulator.next('vllm-error', 2);
    const synchronous = await call('POST', '/v1/chat/completions', bench.key.key, chat);
    const { json } = await submit();
    const failed = await ended(json.id);
    expect(failed).toMatchObject({ status: 'failed', result: null, completed_at: null });
    expect(failed.failed_at).not.toBeNull();
    expect(failed.error).toEqual(synchronous.json.error);
    expect(bench.simulator.requests).toHaveLength(2);
  });

  test('a job that has not ended within 24 hours fails', async () => {
    await bench.renew();
    const id = await parked();
    clock.aheadMs += 25 * 3_600_000;
    bench.session = await bench.gateway.login();
    expect((await ended(id)).error).toMatchObject({ code: 'deadline_exceeded' });
  });
});

describe('what changes between submission and run', () => {
  const changes: [string, string, (key: { id: string }) => Promise<unknown>, (() => Promise<unknown>)?][] = [
    ['the key is deleted', 'invalid_api_key', ({ id }) => call('DELETE', `/api/v1/api-keys/${id}`, bench.session)],
    [
      'the key loses the scope',
      'missing_scope',
      ({ id }) => call('PATCH', `/api/v1/api-keys/${id}`, bench.session, { scopes: ['inference:images'] }),
    ],
    [
      'the model leaves the allowlist',
      'model_not_allowed',
      ({ id }) => call('PATCH', `/api/v1/api-keys/${id}`, bench.session, { model_allowlist: ['sim-embedding'] }),
    ],
    [
      'the key expires',
      'expired_api_key',
      ({ id }) =>
        call('PATCH', `/api/v1/api-keys/${id}`, bench.session, {
          expires_at: new Date(clock.now() + 20_000).toISOString(),
        }),
    ],
    [
      'the organization is suspended',
      'tenant_suspended',
      async () => {
        const { organization } = (await call('GET', '/api/v1/profile', bench.session)).json;
        await bench.admin('POST', `/organizations/${organization.id}/suspend`, { reason: 'test' });
      },
      async () => {
        const { organization } = (await call('GET', '/api/v1/profile', bench.session)).json;
        await bench.admin('POST', `/organizations/${organization.id}/restore`);
      },
    ],
  ];
  test.each(changes)('%s: the job fails with %s, without a call or a charge', async (_what, code, change, undo) => {
    const { simulator, gateway } = bench;
    const key = await gateway.createKey(bench.session);
    const id = await parked({}, key.key);
    const seen = simulator.requests.length;
    await change(key);
    unpark();
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code }, usage: null });
    await undo?.();
    expect(simulator.requests).toHaveLength(seen);
    expect((await events(key.id)).every(({ cost_usd: cost }) => cost === 0)).toBe(true);
    await call('DELETE', `/api/v1/api-keys/${key.id}`, bench.session);
  });

  test('a key restricted to other addresses after a job was submitted from an allowed one: the job runs', async () => {
    const { gateway } = bench;
    const key = await gateway.createKey(bench.session, { ip_allowlist: ['127.0.0.0/8', '::1'] });
    const id = await parked({}, key.key);
    const elsewhere = { ip_allowlist: ['192.0.2.7'] };
    expect((await call('PATCH', `/api/v1/api-keys/${key.id}`, bench.session, elsewhere)).status).toBe(200);
    unpark();
    expect(await ended(id)).toMatchObject({ status: 'completed', error: null });
    // From here nothing more can be submitted or read.
    await waitFor(async () => (await submit(key.key)).json.error?.code === 'ip_not_allowed', {
      description: 'the edge to hear of the list',
    });
    const read = await call('GET', `/api/v1/jobs/${id}`, key.key);
    expect([read.status, read.json.error.code]).toEqual([403, 'ip_not_allowed']);
    await call('DELETE', `/api/v1/api-keys/${key.id}`, bench.session);
  });

  test('the price is raised after the job has started: its charge is that of the time by which reports count it', async () => {
    bench.session = await bench.gateway.login();
    await bench.renew();
    const id = await parked();
    const raised = clock.now() + 20_000;
    const price = { model: 'sim-chat', input_per_million_tokens_usd: 3, output_per_million_tokens_usd: 3 };
    await bench.admin('POST', '/prices', { ...price, effective_from: new Date(raised).toISOString() });
    unpark();
    const { usage } = await ended(id);
    const [event] = await eventsOf(bench.key.id, 1);
    expect(Date.parse(event!.occurred_at)).toBeLessThan(raised);
    expect(event!.cost_usd).toBe(usage.total_tokens / 1_000_000);
    // What starts from then on costs the new price.
    const { usage: later } = await ended((await submit()).json.id);
    const [newest] = await eventsOf(bench.key.id, 2);
    expect(newest!.cost_usd).toBe((3 * later.total_tokens) / 1_000_000);
    await bench.admin('POST', '/prices', { model: 'sim-chat', ...dollarPerMillion });
  });

  test('the model is retired: the job fails with model_sunset, and the repeat of a submission is still answered with its job', async () => {
    bench.session = await bench.gateway.login();
    await bench.renew();
    const id = await parked();
    const sunset = new Date(clock.now() + 20_000).toISOString();
    await bench.admin('POST', '/retirements', {
      model: 'sim-chat',
      sunset_at: sunset,
      replacement_model_name: 'sandbox-chat',
    });
    // The edge hears of it within a second.
    await waitFor(async () => (await call('POST', '/v1/chat/completions', bench.session, chat)).headers.has('sunset'), {
      description: 'the announcement',
      intervalMs: 10,
    });
    // The submission itself announces it, as every answer does.
    const keyed = { 'idempotency-key': 'last-order' };
    const repeat = (fields = {}) =>
      bench.gateway.call(
        'POST',
        '/v1/chat/completions',
        bench.key.key,
        { ...chat, ...fields, background: true },
        keyed,
      );
    const announced = await repeat();
    expect(announced.status).toBe(202);
    expect(announced.headers.get('sunset')).not.toBeNull();
    expect(announced.headers.get('link')).toContain('sandbox-chat');
    await ended(announced.json.id);
    const seen = bench.simulator.requests.length;
    unpark();
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code: 'model_sunset' } });
    expect(bench.simulator.requests).toHaveLength(seen);
    const inSession = { endpoint: '/v1/chat/completions', body: chat };
    for (const refused of [await submit(), await call('POST', '/api/v1/jobs', bench.session, inSession)]) {
      expect([refused.status, refused.json.error.code]).toEqual([410, 'model_sunset']);
      expect(refused.headers.get('link')).toContain('sandbox-chat');
    }
    // A client that has lost the answer to its submission repeats it, and is answered with the job that it has.
    const repeated = await repeat();
    expect([repeated.status, repeated.json.id, repeated.json.status]).toEqual([202, announced.json.id, 'completed']);
    expect(repeated.headers.get('location')).toBe(announced.headers.get('location'));
    const reused = await repeat({ temperature: 0 });
    expect([reused.status, reused.json.error.code]).toEqual([400, 'idempotency_key_reused']);
  });
});
