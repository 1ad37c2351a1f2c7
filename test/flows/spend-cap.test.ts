import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway;
let session: string;
beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

const request = { model: 'sandbox-chat', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello!' }] };

describe("a key's daily spend cap", () => {
  test('far away, it is not felt', async () => {
    const { key } = await gateway.createKey(session, { spend_cap_usd: 100 });
    const client = gateway.openai(key);
    for (let call = 0; call < 3; call++) await client.chat.completions.create(request);
  });

  test('of zero blocks all spend, after one call of a client that retries, and says when it resets', async () => {
    const { key } = await gateway.createKey(session, { spend_cap_usd: 0 });
    const error = await gateway
      .openai(key, { maxRetries: 3 })
      .chat.completions.create(request)
      .then(
        () => null,
        (thrown) => thrown,
      );
    expect(error).toMatchObject({ status: 429, code: 'spend_cap_exceeded', type: 'insufficient_quota' });
    expect(error.message).toMatch(/will reset at \d{4}-\d{2}-\d{2}T00:00:00/);
    expect(error.headers.get('x-should-retry')).toBe('false');
    expect(Number(error.headers.get('retry-after'))).toBeLessThanOrEqual(86_400);
  });
});
