import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService } from '#shared/rpc/caller.ts';
import { testEvent } from '../../services/usage/fixtures/test-events.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
  // A cent per thousand tokens, so that a call's largest cost is its max_tokens and little else.
  const price = { model: 'sim-chat', output_per_million_tokens_usd: 10 };
  expect((await bench.gateway.call('POST', '/api/v1/admin/prices', bench.session, price)).status).toBe(201);
  // A cent for the longest text that the model accepts.
  const perText = { model: 'sim-embedding', input_per_million_tokens_usd: 1_000 };
  expect((await bench.gateway.call('POST', '/api/v1/admin/prices', bench.session, perText)).status).toBe(201);
  const size = { context_window: 10 };
  const sized = await bench.gateway.call('PATCH', '/api/v1/admin/models/sim-embedding', bench.session, size);
  expect(sized.status, sized.text).toBe(200);
});
afterAll(() => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.simulator.reset());

const call = async (key: string, fields: object = {}) =>
  bench.gateway.call('POST', '/v1/chat/completions', key, {
    model: 'sim-chat',
    messages: [{ role: 'user', content: 'Hello there' }],
    max_tokens: 1_000,
    ...fields,
  });

const submit = async (key: string) => {
  const { status, text, json } = await call(key, { background: true });
  expect(status, text).toBe(202);
  return json.id as string;
};

const job = async (id: string, key: string) => (await bench.gateway.call('GET', `/api/v1/jobs/${id}`, key)).json;

const spent = async (keyId: string): Promise<number> =>
  (await bench.gateway.call('GET', `/api/v1/api-keys/${keyId}`, bench.session)).json.budget.spent_today_usd;

/** An upstream that answers no call until told to. */
function heldUpstream() {
  const { promise, resolve } = Promise.withResolvers<void>();
  bench.simulator.otherwise(() => ({ hold: { until: promise }, tokens: 5 }));
  return resolve;
}

const isAdmitted = async (key: string): Promise<boolean> => {
  const { status, json } = await call(key);
  if (status === 429) expect(json.error.code).toBe('spend_cap_exceeded');
  return status === 200;
};

test('jobs hold their largest cost from submission to their end, and then only what they used is spent', async () => {
  const answer = heldUpstream();
  const { id, key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.02 });
  const jobs = [await submit(key), await submit(key)];
  const refused = await call(key);
  expect([refused.status, refused.json.error.code]).toEqual([429, 'spend_cap_exceeded']);
  // A third one is refused when submitted, and leaves nothing behind.
  expect((await call(key, { background: true })).json.error).toMatchObject({ code: 'spend_cap_exceeded' });
  expect((await bench.gateway.call('GET', '/api/v1/jobs', key)).json.data).toHaveLength(2);
  expect(await spent(id)).toBe(0);

  answer();
  for (const jobId of jobs) {
    await waitFor(async () => (await job(jobId, key)).status === 'completed', {
      description: `the end of ${jobId}`,
      timeoutMs: 10_000,
    });
  }
  await waitFor(async () => (await spent(id)) === 0.0001, { description: 'both jobs to be charged, once each' });
  expect(await isAdmitted(key)).toBe(true);
});

test('one submission sent many times at once, with room for one job, is the same job each time', async () => {
  const answer = heldUpstream();
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
  const fields = {
    model: 'sim-chat',
    messages: [{ role: 'user', content: 'Hello there' }],
    max_tokens: 1_000,
    background: true,
  };
  const headers = { 'idempotency-key': 'at-once' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => bench.gateway.call('POST', '/v1/chat/completions', key, fields, headers)),
  );
  expect(answers.map(({ status, json }) => [status, json.error?.code])).toEqual(answers.map(() => [202, undefined]));
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
  answer();
});

test('a cancelled job frees its room at once, whether it is running or waiting', async () => {
  const answer = heldUpstream();
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
  const jobId = await submit(key);
  expect(await isAdmitted(key)).toBe(false);
  await bench.simulator.waitFor(({ operation }) => operation === 'chat', { description: 'the job to run' });
  expect((await bench.gateway.call('POST', `/api/v1/jobs/${jobId}/cancel`, key)).json.status).toBe('cancelled');
  answer();
  await waitFor(() => isAdmitted(key), { description: 'the room to be free', timeoutMs: 10_000, intervalMs: 50 });
});

test('neither a cap lowered meanwhile nor a failing model leaves anything held', async () => {
  const { id, key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
  bench.simulator.otherwise('vllm-error');
  const jobId = await submit(key);
  await waitFor(async () => (await job(jobId, key)).status === 'failed', {
    description: 'the job to fail',
    timeoutMs: 10_000,
  });
  bench.simulator.otherwise({ tokens: 5 });
  await waitFor(() => isAdmitted(key), { description: 'the room to be free', timeoutMs: 10_000, intervalMs: 50 });
  const lowered = { spend_cap_usd: 0 };
  expect((await bench.gateway.call('PATCH', `/api/v1/api-keys/${id}`, bench.session, lowered)).status).toBe(200);
  expect((await call(key, { background: true })).json.error.code).toBe('spend_cap_exceeded');
});

test('a job keeps its room between two attempts, though a limit is lowered meanwhile', async () => {
  const failing = Promise.withResolvers<void>();
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.02 });
  const answer = heldUpstream();
  bench.simulator.next({ instead: { status: 500, body: { error: 'broken' } }, hold: { until: failing.promise } });
  const jobs = [await submit(key)];
  await bench.simulator.waitFor(({ operation }) => operation === 'chat', { description: 'the first attempt' });
  jobs.push(await submit(key));
  const limit = (method: string, body?: object) =>
    bench.gateway.call(method, '/api/v1/profile/cost-limit', bench.session, body);
  expect((await limit('PUT', { limit_usd: 0 })).status).toBe(200);
  failing.resolve();
  await waitFor(async () => (await job(jobs[0]!, key)).status !== 'in_progress', {
    description: 'the end of the attempt',
  });
  answer();
  for (const jobId of jobs) {
    const found = await waitFor(
      async () => {
        const { status, error } = await job(jobId, key);
        return ['completed', 'failed'].includes(status) && { status, error };
      },
      { description: `the end of ${jobId}`, timeoutMs: 10_000 },
    );
    expect(found).toEqual({ status: 'completed', error: null });
  }
  expect((await limit('DELETE')).status).toBe(204);
  await waitFor(() => isAdmitted(key), { description: 'the room to be free', timeoutMs: 10_000, intervalMs: 50 });
});

test.each(['later', 'at once'])(
  'room that the second run of a job took anew is free again if the lost first run is what counts, told %s',
  async (told) => {
    const { switchboard } = bench.gateway.gateway;
    const billing = switchboard.client('jobs', BillingService);
    const usage = switchboard.client('edge', UsageService);
    const { id: apiKeyId, key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.01 });
    const profile = (await bench.gateway.call('GET', '/api/v1/profile', bench.session)).json;
    const caller = { tenantId: profile.organization.id, userId: profile.id, apiKeyId };
    const jobId = uuidv7();
    const costNanoUsd = 10_000_000n;
    const demand = { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: costNanoUsd };
    await billing.lease(
      { ...caller, holderId: jobId, costMaxNanoUsd: costNanoUsd, demands: [demand] },
      asService('jobs'),
    );
    const settlement = { leaseId: demand.leaseId, fencingToken: 1n, usedNanoUsd: costNanoUsd };
    await billing.settle({ holderId: jobId, settlements: [settlement] }, asService('jobs'));
    expect(await isAdmitted(key)).toBe(false);
    const first = testEvent(Date.now(), { ...caller, jobId, usage: { costNanoUsd: 0n } });
    const second = { ...first, leaseIds: [demand.leaseId] };
    if (told === 'at once') await usage.record({ events: [first, second] }, asService('edge'));
    else for (const event of [first, second]) await usage.record({ events: [event] }, asService('edge'));
    await waitFor(() => isAdmitted(key), { description: 'the room to be free' });
    await bench.gateway.call('DELETE', `/api/v1/api-keys/${apiKeyId}`, bench.session);
  },
);

test('a job submitted while nothing limited it does not run under a later cap that leaves no room for it', async () => {
  const { id, key } = await bench.gateway.createKey(bench.session);
  const failing = Promise.withResolvers<void>();
  bench.simulator.next({ instead: { status: 500, body: { error: 'broken' } }, hold: { until: failing.promise } });
  const jobId = await submit(key);
  await bench.simulator.waitFor(({ operation }) => operation === 'chat', { description: 'the first attempt' });
  const cap = { spend_cap_usd: 0 };
  expect((await bench.gateway.call('PATCH', `/api/v1/api-keys/${id}`, bench.session, cap)).status).toBe(200);
  failing.resolve();
  const ended = await waitFor(
    async () => {
      const found = await job(jobId, key);
      return ['completed', 'failed'].includes(found.status) && found;
    },
    { description: 'the end of the job', timeoutMs: 10_000 },
  );
  expect(ended).toMatchObject({ status: 'failed', error: { code: 'spend_cap_exceeded' } });
  expect(bench.simulator.requests).toHaveLength(1);
});

test('jobs of a model that was free at their submission run within the caps of their caller, once it has a price', async () => {
  const rates = (usd: number) =>
    bench.admin('POST', '/prices', { model: 'sim-chat', output_per_million_tokens_usd: usd });
  const { deployments } = await bench.admin('GET', '/models/sim-chat');
  const concurrency = (limit: number) =>
    bench.admin('PATCH', `/deployments/${deployments[0].id}`, { concurrency_limit: limit });
  await rates(0);
  await concurrency(1);
  const two = () => Promise.all([call(bench.session), call(bench.session)]);
  await waitFor(async () => (await two()).some(({ status }) => status === 503), { description: 'the limit to hold' });
  const { id, key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.02 });
  const answer = heldUpstream();
  const other = call(bench.session);
  await bench.simulator.waitFor(({ operation }) => operation === 'chat', { description: 'the model to be full' });
  const jobs = [await submit(key), await submit(key), await submit(key), await submit(key)];
  await rates(10);
  const broke = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0 });
  await waitFor(async () => (await call(broke.key)).status === 429, { description: 'the price to be known' });
  await bench.gateway.call('DELETE', `/api/v1/api-keys/${broke.id}`, bench.session);
  bench.simulator.next('vllm-error');
  bench.simulator.otherwise({ tokens: 1_000 });
  answer();
  expect((await other).status).toBe(200);
  const ends = jobs.map((jobId) =>
    waitFor(
      async () => {
        const { status, error } = await job(jobId, key);
        return ['completed', 'failed'].includes(status) && (error?.code ?? status);
      },
      { description: `the end of ${jobId}`, timeoutMs: 10_000 },
    ),
  );
  expect((await Promise.all(ends)).toSorted()).toEqual([
    'completed',
    'completed',
    'context_length_exceeded',
    'spend_cap_exceeded',
  ]);
  await waitFor(async () => (await spent(id)) === 0.02, { description: 'both jobs to be charged, once each' });
  await concurrency(0);
});

test.each<[what: string, path: string, body: object, callsHeld: number]>([
  ['each of several prompts', 'completions', { prompt: ['a', 'b'], max_tokens: 1_000 }, 1],
  ['each of several prompts in tokens', 'completions', { prompt: [[1], [2, 3]], max_tokens: 1_000 }, 1],
  ['one prompt in tokens', 'completions', { prompt: [1, 2, 3], max_tokens: 1_000 }, 2],
  ['the limit that a completion has', 'completions', { prompt: 'a', max_tokens: 2_000, max_completion_tokens: 1 }, 1],
  ['the larger limit of a chat', 'chat/completions', { messages: [], max_tokens: 2_000, max_completion_tokens: 1 }, 1],
  ['what llama.cpp heeds instead', 'chat/completions', { messages: [], max_tokens: 1, n_predict: 2_000 }, 1],
  ['what llama.cpp heeds in a completion', 'completions', { prompt: 'a', max_tokens: 1, n_predict: 2_000 }, 1],
  [
    'each of several inputs',
    'embeddings',
    { model: 'sim-embedding', input: ['long '.repeat(9), 'long '.repeat(9)] },
    1,
  ],
])('for %s, as much is held as it may cost', async (_, path, body, callsHeld) => {
  const answer = heldUpstream();
  const { id, key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.02 });
  const submitted = () =>
    bench.gateway.call('POST', `/v1/${path}`, key, { model: 'sim-chat', ...body, background: true });
  for (let call = 0; call < callsHeld; call++) expect((await submitted()).status).toBe(202);
  expect((await submitted()).json.error.code).toBe('spend_cap_exceeded');
  answer();
  await bench.gateway.call('DELETE', `/api/v1/api-keys/${id}`, bench.session);
});
