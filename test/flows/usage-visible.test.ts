import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

test('a chat and a stream are visible in usage, with the tokens that the client was told and the price of the model', async () => {
  const session = await gateway.login();
  const { id, key } = await gateway.createKey(session);
  const management = await gateway.createKey(session, { key_type: 'management' });
  const client = gateway.openai(key);
  const request = { model: 'sandbox-chat', messages: [{ role: 'user' as const, content: 'Hello!' }] };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  const streamed = (await Array.fromAsync(stream)).at(-1)!.usage!;

  const history = await waitFor(
    async () => {
      const answer = await gateway.call('GET', '/api/v1/usage/history', management.key);
      return answer.json?.data?.length === 2 && answer;
    },
    { timeoutMs: 2_000, description: 'both events in the history' },
  );
  const tokens = whole.usage!.prompt_tokens + streamed.prompt_tokens;
  const outputTokens = whole.usage!.completion_tokens + streamed.completion_tokens;
  for (const event of history.json.data) {
    expect(event).toMatchObject({
      api_key_id: id,
      model: 'sandbox-chat',
      endpoint: '/v1/chat/completions',
      success: true,
      status: 200,
      error_code: null,
    });
  }
  expect(history.json.data.map((event: { request_id: string }) => event.request_id)).toContain(whole._request_id);

  const current = await gateway.call('GET', '/api/v1/usage/current', management.key);
  expect(current.json).toMatchObject({ requests: 2, input_tokens: tokens, output_tokens: outputTokens });
  // 2.50 USD and 10 USD per million tokens: the exact decimal, not a result of floats.
  const nanoUsd = BigInt(tokens) * 2_500n + BigInt(outputTokens) * 10_000n;
  expect(current.text).toContain(`"cost_usd":${(Number(nanoUsd) / 1e9).toFixed(9).replace(/0+$/, '')}`);
});

test('a call under /api/v1 is metered like one under /v1', async () => {
  const session = await gateway.login();
  const { id, key } = await gateway.createKey(session);
  await gateway
    .openai(key, { prefix: '/api/v1' })
    .chat.completions.create({ model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] });
  await waitFor(
    async () => {
      const answer = await gateway.call('GET', `/api/v1/usage/history?api_key_id=${id}`, session);
      return answer.json?.data?.[0]?.endpoint === '/v1/chat/completions';
    },
    { timeoutMs: 2_000, description: 'the event in the history' },
  );
});

test("usage by key has the names, previews and users of keys, including deleted ones and teammates', for those who may see their usage", async () => {
  const session = await gateway.login();
  const invited = await gateway.call('POST', '/api/v1/invitations', session, {
    email: 'mate@example.com',
    role: 'member',
  });
  expect(invited.status, invited.text).toBe(201);
  const mail = await gateway.call('GET', '/api/v1/admin/mail?search=mate@example.com', session);
  const mate = { email: 'mate@example.com', password: 'Correct-horse-2' };
  await gateway.call('POST', '/api/v1/auth/accept-invite', '', {
    ...{ token: /[?&]token=([\w-]+)/.exec(mail.text)![1], password: mate.password, first_name: 'M', last_name: 'Ate' },
  });
  const mateSession = await gateway.login(mate);
  const own = await gateway.createKey(session, { name: 'of the owner' });
  const live = await gateway.createKey(mateSession, { name: 'of the mate' });
  const gone = await gateway.createKey(mateSession, { name: 'gone' });
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  for (const token of [own.key, live.key, gone.key, mateSession]) {
    expect((await gateway.call('POST', '/v1/chat/completions', token, chat)).status).toBe(200);
  }
  expect((await gateway.call('DELETE', `/api/v1/api-keys/${gone.id}`, mateSession)).status).toBe(204);

  const today = new Date().toISOString().slice(0, 10);
  const range = `start_date=${today}&end_date=${today}`;
  type Label = 'name' | 'deleted' | 'preview' | 'user_id';
  type Row = { api_key_id: string | null } & Record<`api_key_${Label}`, unknown>;
  const labels = (rows: Row[]) =>
    new Map(
      rows.map(({ api_key_id, api_key_name, api_key_deleted, api_key_preview, api_key_user_id }) => [
        api_key_id,
        [api_key_name, api_key_deleted, api_key_preview, api_key_user_id],
      ]),
    );
  const preview = ({ key }: { key: string }) => `${key.slice(0, 12)}...${key.slice(-4)}`;
  const [ownerId, mateId] = await Promise.all(
    [session, mateSession].map(async (token) => (await gateway.call('GET', '/api/v1/profile', token)).json.id),
  );
  const ofMate = new Map([
    [live.id, ['of the mate', false, preview(live), mateId]],
    [gone.id, ['gone', true, preview(gone), mateId]],
    [null, [null, null, null, null]],
  ]);
  const reports = async (token: string, scope: string) => {
    const summary = await gateway.call('GET', `/api/v1/usage/summary?${range}&scope=${scope}`, token);
    const report = await gateway.call('GET', `/api/v1/usage/report?${range}&scope=${scope}&group_by=api_key`, token);
    return [labels(summary.json.by_api_key), labels(report.json.buckets[0].groups)];
  };
  await waitFor(async () => (await reports(mateSession, 'own')).every(({ size }) => size === 3), {
    description: "the mate's calls in the usage",
  });
  expect(await reports(mateSession, 'own')).toEqual([ofMate, ofMate]);
  for (const ofAll of await reports(session, 'tenant')) {
    expect(ofAll.get(own.id)).toEqual(['of the owner', false, preview(own), ownerId]);
    expect(ofAll.get(gone.id)).toEqual(ofMate.get(gone.id));
    expect(ofAll.get(live.id)).toEqual(ofMate.get(live.id));
  }
  // Nothing about a teammate's keys is shown to those who may not see their usage.
  for (const ofOwner of await reports(session, 'own')) {
    expect([ofOwner.has(own.id), ofOwner.has(live.id), ofOwner.has(gone.id)]).toEqual([true, false, false]);
  }
});

test('the metrics show the lag to the stored row, the journal and refused batches', async () => {
  const text = await waitFor(
    async () => {
      const { text } = await gateway.call('GET', '/metrics');
      return /^gateway_journal_pending_events 0$/m.test(text) && text;
    },
    { timeoutMs: 2_000, description: 'a journal whose events are all stored' },
  );
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  expect(value('gateway_usage_lag_seconds_count')).toBeGreaterThan(0);
  expect(value('gateway_usage_lag_seconds_sum') / value('gateway_usage_lag_seconds_count')).toBeLessThan(2);
  expect(value('gateway_usage_refused_batches_total')).toBe(0);
  expect(value('gateway_journal_bytes')).toBeGreaterThan(0);
  expect(value('gateway_journal_healthy')).toBe(1);
});
