import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
let session: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const model = async (): Promise<string> => {
  const { json } = await gateway.call('GET', '/api/v1/models', session);
  return json.data.find(({ operations }: { operations: string[] }) => operations.includes('chat_completions')).id;
};

test('a key stops at its daily cap after one try, with the reset in message and headers, while others go on', async () => {
  const name = await model();
  const free = await gateway.createKey(session, {});
  const capped = await gateway.createKey(session, { spend_cap_usd: 0.0005 });
  const client = gateway.openai(capped.key, { maxRetries: 3 });
  let refusal: InstanceType<typeof OpenAI.APIError> | undefined;
  let answers = 0;
  for (let calls = 0; calls < 500 && refusal === undefined; calls++) {
    try {
      await client.chat.completions.create({
        model: name,
        messages: [{ role: 'user', content: 'Hello there' }],
        max_completion_tokens: 40,
      });
      answers += 1;
    } catch (error) {
      refusal = error as InstanceType<typeof OpenAI.APIError>;
    }
  }
  expect(answers).toBeGreaterThan(0);
  expect(refusal).toBeInstanceOf(OpenAI.RateLimitError);
  expect(refusal!.code).toBe('spend_cap_exceeded');
  expect(refusal!.type).toBe('insufficient_quota');
  expect(refusal!.message).toMatch(/will reset at \d{4}-\d{2}-\d{2}T00:00:00\.000Z/);
  expect(refusal!.headers!.get('x-should-retry')).toBe('false');
  expect(Number(refusal!.headers!.get('retry-after'))).toBeGreaterThan(0);
  await gateway
    .openai(free.key)
    .chat.completions.create({ model: name, messages: [{ role: 'user', content: 'Hello' }] });
});

test('every call is charged: usage, wallet and ledger agree to the nano-USD', async () => {
  const name = await model();
  const { key } = await gateway.createKey(session, {});
  const client = gateway.openai(key);
  await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      client.chat.completions.create({ model: name, messages: [{ role: 'user', content: `Number ${index}` }] }),
    ),
  );
  const exact = async (path: string, field: string): Promise<string> => {
    const { text } = await gateway.call('GET', path, session);
    return new RegExp(`"${field}":([0-9.]+)`).exec(text)?.[1] ?? '';
  };
  await waitFor(
    async () => {
      const calls = await gateway.call('GET', `/api/v1/usage/history?scope=tenant&model=${name}`, session);
      if (calls.json.pagination.total < 10) return false;
      // All three at the same moment, since calls of earlier tests may still be on their way.
      const used = await exact('/api/v1/usage/current?scope=tenant', 'cost_usd');
      const charged = await exact('/api/v1/billing/payg-spend-cap', 'spent_usd');
      const invoiced = await exact('/api/v1/billing/documents/invoices', 'subtotal_usd');
      return used !== '' && used === charged && charged === invoiced;
    },
    { description: 'the ledger and the invoice to have what usage has' },
  );
  const billing = gateway.gateway.switchboard.client('admin', BillingService);
  const { faults } = await billing.verifyLedger({}, { contextValues: callerContext(serviceCaller('admin')) });
  expect(faults).toEqual([]);
});
