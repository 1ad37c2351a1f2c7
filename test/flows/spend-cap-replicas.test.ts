import type OpenAI from 'openai';
import { APIError, RateLimitError } from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

/** Four whole gateways on one database, over which a client's calls are spread. */
let database: TestDatabase;
let gateways: TestGateway[];

beforeAll(async () => {
  database = await createTestDatabase();
  const first = await startTestGateway({ databaseUrl: database.url });
  const others = [1, 2, 3].map(() => startTestGateway({ databaseUrl: database.url, worker: false }));
  gateways = [first, ...(await Promise.all(others))];
});
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway[Symbol.asyncDispose]()));
  await database.drop();
});

const request = { model: 'sandbox-chat', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello!' }] };
const nanoUsd = { promptToken: 2_500, completionToken: 10_000 };
const cost = ({ prompt_tokens, completion_tokens }: OpenAI.CompletionUsage): number =>
  prompt_tokens * nanoUsd.promptToken + completion_tokens * nanoUsd.completionToken;

test('200 calls at a cap through four gateways at once overshoot it by less than one call, and later ones fill it', async () => {
  const [first] = gateways as [TestGateway];
  const session = await first.login();
  const organization = (await first.call('GET', '/api/v1/organization', session)).json;
  const far = { requests_per_minute: 100_000, tokens_per_minute: 100_000_000, concurrent_requests: 10_000 };
  await first.call('PATCH', `/api/v1/admin/organizations/${organization.id}`, session, { rate_limits: far });
  // An edge that has not heard of it yet would refuse calls because of the plan's limits.
  const knowsLimits = async (gateway: TestGateway) =>
    (await gateway.call('GET', '/api/v1/rate-limits', session)).json.limits.requests_per_minute === 100_000;
  for (const gateway of gateways) await waitFor(() => knowsLimits(gateway), { description: 'the limits to be raised' });
  const measuring = await first.createKey(session);
  const measured = await first.openai(measuring.key).chat.completions.create(request);
  const costMax = cost({ ...measured.usage!, completion_tokens: request.max_tokens });
  const capNanoUsd = 20 * costMax;
  const { id, key } = await first.createKey(session, { spend_cap_usd: capNanoUsd / 1e9 });
  const clients = gateways.map((gateway) => gateway.openai(key));

  let spent = 0;
  let served = 0;
  const call = async (index: number): Promise<boolean> => {
    try {
      const { usage } = await clients[index % clients.length]!.chat.completions.create(request);
      spent += cost(usage!);
      served += 1;
      return true;
    } catch (error) {
      // Nothing was decided: a busy machine refused the call, or its database did not answer in time.
      if (error instanceof APIError && [503, 504].includes(error.status!)) return call(index);
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({ status: 429, code: 'spend_cap_exceeded' });
      return false;
    }
  };

  await Promise.all(Array.from({ length: 200 }, (_, index) => call(index)));
  expect(served).toBeGreaterThan(0);
  expect(spent).toBeLessThan(capNanoUsd + costMax);

  // One after the other, at any gateway: room held by one comes back to the one that needs it.
  let index = 0;
  await waitFor(
    async () => {
      while (await call(index)) index += 1;
      index += 1;
      return spent >= capNanoUsd;
    },
    { description: 'the cap to be filled', timeoutMs: 60_000 },
  );
  expect(spent).toBeLessThan(capNanoUsd + costMax);
  for (const [other] of clients.entries()) expect(await call(other)).toBe(false);

  const shown = await waitFor(
    async () => {
      const { budget } = (await first.call('GET', `/api/v1/api-keys/${id}`, session)).json;
      return Math.round(budget.spent_today_usd * 1e9) >= spent && budget;
    },
    { description: 'every call to be charged', timeoutMs: 60_000 },
  );
  expect(Math.round(shown.spent_today_usd * 1e9)).toBe(spent);
});
