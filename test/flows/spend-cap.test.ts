import { randomBytes } from 'node:crypto';
import { RateLimitError } from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
let session: string;
const logLines: string[] = [];
beforeAll(async () => {
  gateway = await startTestGateway({ logLines });
  session = await gateway.login();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

const request = { model: 'sandbox-chat', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello!' }] };

describe("a key's daily spend cap", () => {
  test('is not noticed while far away', async () => {
    const { id, key } = await gateway.createKey(session, { spend_cap_usd: 100 });
    const client = gateway.openai(key);
    for (let call = 0; call < 3; call++) await client.chat.completions.create(request);
    // The amount spent is next to the cap, in the list and for the single key.
    const midnight = new Date();
    midnight.setUTCHours(24, 0, 0, 0);
    const item = await waitFor(
      async () => {
        const { data } = (await gateway.call('GET', '/api/v1/api-keys', session)).json;
        const listed = data.find((one: { id: string }) => one.id === id);
        return listed.budget.spent_today_usd > 0 && listed;
      },
      { description: 'the spend in the list of keys' },
    );
    expect(item.budget.resets_at).toBe(midnight.toISOString());
    const path = `/api/v1/api-keys/${id}`;
    expect((await gateway.call('GET', path, session)).json.budget.resets_at).toBe(midnight.toISOString());
    const changed = await gateway.call('PATCH', path, session, { spend_cap_usd: 50 });
    expect(changed.json.budget.spent_today_usd).toBeGreaterThanOrEqual(item.budget.spent_today_usd);
    expect((await gateway.call('PATCH', path, session, { spend_cap_usd: null })).json.budget).toBeNull();
  });

  test('of zero blocks all spending, after one call of a client that retries, and says when it resets', async () => {
    const { key } = await gateway.createKey(session, { spend_cap_usd: 0 });
    let calls = 0;
    const counting: typeof fetch = (...call) => {
      calls += 1;
      return fetch(...call);
    };
    const error = await gateway
      .openai(key)
      .withOptions({ maxRetries: 3, fetch: counting })
      .chat.completions.create(request)
      .then(
        () => null,
        (thrown) => thrown,
      );
    expect(calls).toBe(1);
    expect(error).toMatchObject({ status: 429, code: 'spend_cap_exceeded', type: 'insufficient_quota' });
    expect(error.message).toMatch(/will reset at \d{4}-\d{2}-\d{2}T00:00:00/);
    expect(error.headers.get('x-should-retry')).toBe('false');
    const retryAfter = Number(error.headers.get('retry-after'));
    expect([retryAfter > 0, retryAfter <= 86_400]).toEqual([true, true]);
  });

  test('has room for several photos at once where the context of their model is unknown: their length is not held as that of a text', async () => {
    const admin = (path: string, body: object) => gateway.call('POST', `/api/v1/admin${path}`, session, body);
    const model = 'photos';
    await admin('/models', { name: model, operations: ['chat_completions'] });
    await admin('/deployments', {
      model,
      dialect: 'sandbox',
      base_url: 'sandbox://local',
      upstream_model: 'sandbox-chat',
    });
    await admin('/prices', { model, input_per_million_tokens_usd: 2.5, output_per_million_tokens_usd: 10 });
    const { id, key } = await gateway.createKey(session, { spend_cap_usd: 5 });
    const photo = `data:image/jpeg;base64,${randomBytes(2_000_000).toString('base64')}`;
    const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: photo } }] }];
    const asking = { ...request, model, messages };
    const calls = Array.from({ length: 4 }, () => gateway.call('POST', '/v1/chat/completions', key, asking));
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session);
  });

  test('says that it is spent only once it is: a call that others leave no room is to come again soon', async () => {
    const admin = (path: string, body: object) => gateway.call('POST', `/api/v1/admin${path}`, session, body);
    const model = 'slow';
    await admin('/models', { name: model, operations: ['chat_completions'] });
    const sandbox = { latency_ms: 500 };
    await admin('/deployments', { model, dialect: 'sandbox', upstream_model: 'sandbox-chat', sandbox });
    await admin('/prices', { model, input_per_million_tokens_usd: 2.5, output_per_million_tokens_usd: 10 });
    const { id, key } = await gateway.createKey(session, { spend_cap_usd: 0.0001 });
    const call = () => gateway.call('POST', '/v1/chat/completions', key, { ...request, model });
    const [served, refused] = (await Promise.all([call(), call()])).sort((one, other) => one.status - other.status);
    expect(served!.status, served!.text).toBe(200);
    expect(refused!.json.error).toMatchObject({ code: 'spend_cap_exceeded', type: 'insufficient_quota' });
    expect(refused!.json.error.message).toContain('is held by requests that are not finished. Try again shortly.');
    expect([refused!.headers.get('retry-after'), refused!.headers.get('x-should-retry')]).toEqual(['5', null]);
    await waitFor(async () => (await call()).json.error.message.includes('will reset at'), {
      description: 'the cap to be spent',
    });
    await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session);
  });

  test('refuses a call or a job, with log lines that all name the request', async () => {
    const { key } = await gateway.createKey(session, { spend_cap_usd: 0 });
    for (const background of [false, true]) {
      logLines.length = 0;
      const refused = await gateway.call('POST', '/v1/chat/completions', key, { ...request, background });
      expect(refused.status).toBe(429);
      const lines = logLines.map((line) => JSON.parse(line)).filter(({ reason }) => reason === 'SPEND_CAP_EXCEEDED');
      expect(lines.map(({ method }) => method)).toContain('modelgateway.billing.v1.BillingService/Lease');
      for (const { requestId } of lines) expect(requestId).toBe(refused.headers.get('x-request-id'));
    }
  });
});

describe("a user's and an organization's limits", () => {
  const willReset = /will reset at \d{4}-\d{2}-\d{2}T00:00:00/;
  const limits: [
    name: string,
    code: string,
    told: RegExp,
    set: () => Promise<unknown>,
    reset: () => Promise<unknown>,
  ][] = [
    [
      'personal daily limit of zero',
      'cost_limit_exceeded',
      willReset,
      () => gateway.call('PUT', '/api/v1/profile/cost-limit', session, { limit_usd: 0 }),
      () => gateway.call('DELETE', '/api/v1/profile/cost-limit', session),
    ],
    [
      'pay-as-you-go cap of zero',
      'payg_cap_exceeded',
      willReset,
      () => gateway.call('PUT', '/api/v1/billing/payg-spend-cap', session, { limit_usd: 0 }),
      () => gateway.call('DELETE', '/api/v1/billing/payg-spend-cap', session),
    ],
    [
      'plan without credit or pay-as-you-go',
      'credit_balance_exhausted',
      /no credit left\. Redeem a coupon, or ask the platform's operator for credit\.$/,
      () => assignPlan('prepaid'),
      () => assignPlan('developer'),
    ],
    [
      "plan's credit of a month that is used up",
      'credit_balance_exhausted',
      willReset,
      async () => {
        const plan = { name: 'Small', payg_enabled: false, monthly_credit_usd: 0.000000001 };
        await gateway.call('PUT', '/api/v1/admin/plans/small', session, plan);
        await assignPlan('small');
      },
      () => assignPlan('developer'),
    ],
  ];
  const assignPlan = async (plan: string) => {
    const { id } = (await gateway.call('GET', '/api/v1/organization', session)).json;
    return gateway.call('PATCH', `/api/v1/admin/organizations/${id}`, session, { plan });
  };

  test.each(limits)(
    'a %s stops a client after one call, with its own code, until it is lifted',
    async (_name, code, told, set, reset) => {
      const { key, id } = await gateway.createKey(session);
      const client = gateway.openai(key, { maxRetries: 3 });
      await client.chat.completions.create(request);
      await set();
      // The absence of a limit is believed for three seconds at most.
      const error = await waitFor(
        () =>
          client.chat.completions.create(request).then(
            () => null,
            (thrown) => thrown,
          ),
        { description: `the refusal ${code}`, timeoutMs: 8_000, intervalMs: 100 },
      );
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({ status: 429, code, type: 'insufficient_quota' });
      expect(error.message).toMatch(told);
      expect(error.headers.get('x-should-retry')).toBe('false');
      // A limit that never lifts by itself must not be waited for.
      expect(Number(error.headers.get('retry-after')) > 0).toBe(told === willReset);
      await reset();
      await waitFor(() => client.chat.completions.create(request), {
        description: 'the limit to be gone',
        timeoutMs: 8_000,
      });
      await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session);
    },
  );
});
