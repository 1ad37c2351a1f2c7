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
  // 2.50 USD and 10 USD per million tokens: the exact decimal, not what floats make of it.
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
