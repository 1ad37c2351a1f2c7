import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
let session: string;
let organization: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
  organization = `/api/v1/admin/organizations/${(await gateway.call('GET', '/api/v1/organization', session)).json.id}`;
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const chat = (key: string, fields: Record<string, unknown> = {}, at = gateway) =>
  at.call('POST', '/v1/chat/completions', key, {
    model: 'sandbox-chat',
    messages: [{ role: 'user', content: 'Hello there' }],
    max_tokens: 5,
    ...fields,
  });

const limitsSeenBy = async (token: string, path = '/api/v1/rate-limits') =>
  (await gateway.call('GET', path, token)).json;

const setLimits = (rate_limits: unknown) => gateway.call('PATCH', organization, session, { rate_limits });

/** The edge follows its feed; a change takes effect once it has arrived. */
const untilLimitIs = (token: string, requests: number) =>
  waitFor(async () => (await limitsSeenBy(token)).limits.requests_per_minute === requests, {
    description: `a limit of ${requests} requests at the edge`,
  });

describe('limits come from plan, organization and key, the narrowest first', () => {
  test('by default 600 requests, 200,000 tokens and 100 concurrent requests, in headers and in GET /rate-limits', async () => {
    const { key } = await gateway.createKey(session);
    const { headers, status } = await chat(key);
    expect(status).toBe(200);
    expect(headers.get('x-ratelimit-limit-requests')).toBe('600');
    expect(headers.get('x-ratelimit-remaining-requests')).toBe('599');
    expect(headers.get('x-ratelimit-reset-requests')).toBe('100ms');
    expect(headers.get('x-ratelimit-limit-tokens')).toBe('200000');
    expect(Number(headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(200_000);
    const management = await gateway.createKey(session, { key_type: 'management' });
    for (const path of ['/api/v1/rate-limits', '/api/v1/profile/rate-limits']) {
      expect(await limitsSeenBy(management.key, path)).toMatchObject({
        limits: { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 },
        remaining: { requests_per_minute: 600, concurrent_requests: 100 },
      });
    }
  });

  test('an organization’s own, a key’s own within it, and back to the plan’s', async () => {
    const plan = {
      name: 'Small',
      payg_enabled: true,
      rate_limits: { requests_per_minute: 120, tokens_per_minute: 9_000 },
    };
    expect((await gateway.call('PUT', '/api/v1/admin/plans/small', session, plan)).status).toBe(200);
    expect((await gateway.call('PATCH', organization, session, { plan: 'small' })).status).toBe(200);
    await untilLimitIs(session, 120);
    // What the plan leaves open is set by the platform.
    expect((await limitsSeenBy(session)).limits).toEqual({
      requests_per_minute: 120,
      tokens_per_minute: 9_000,
      concurrent_requests: 100,
    });

    expect((await setLimits({ requests_per_minute: 77 })).status).toBe(200);
    await untilLimitIs(session, 77);
    const shown = (await gateway.call('GET', organization, session)).json;
    expect(shown.rate_limits).toEqual({ requests_per_minute: 77, tokens_per_minute: null, concurrent_requests: null });
    expect(shown.effective_rate_limits).toMatchObject({ requests_per_minute: 77, tokens_per_minute: 9_000 });

    const { id, key } = await gateway.createKey(session);
    const own = await gateway.call('PUT', `/api/v1/admin/keys/${id}/rate-limits`, session, { requests_per_minute: 5 });
    expect(own.json.rate_limits).toEqual({
      requests_per_minute: 5,
      tokens_per_minute: null,
      concurrent_requests: null,
    });
    const { headers } = await chat(key);
    expect(headers.get('x-ratelimit-limit-requests')).toBe('5');
    expect(headers.get('x-ratelimit-limit-tokens')).toBe('9000');

    expect((await setLimits(null)).status).toBe(200);
    await untilLimitIs(session, 120);
    expect((await gateway.call('GET', organization, session)).json.rate_limits).toBeNull();
    expect((await gateway.call('PATCH', organization, session, { plan: 'developer' })).status).toBe(200);
    await untilLimitIs(session, 600);
  });

  test('requests and tokens are free again each in their own time', async () => {
    const messages = [{ role: 'user', content: 'word '.repeat(6_000) }];
    const answers = await Promise.all(Array.from({ length: 4 }, () => chat(session, { messages })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    // 24,000 of 200,000 tokens a minute, and 4 of 600 requests.
    const { requests_per_minute, tokens_per_minute } = (await limitsSeenBy(session)).reset_seconds;
    expect(tokens_per_minute).toBeGreaterThan(requests_per_minute);
  });

  test.each([
    { requests_per_minute: 0 },
    { requests_per_minute: -1 },
    { requests_per_minute: 1.5 },
    { requests_per_minute: '60' },
    { tokens_per_minute: 2_000_000_001 },
    { concurrent_requests: 1_000_001 },
    { requests_per_second: 1 },
    'unlimited',
  ])('a limit of %j is refused with 400 and changes nothing', async (rateLimits) => {
    const { status, json } = await setLimits(rateLimits);
    expect(status).toBe(400);
    expect(json.error.param).toContain('rate_limits');
    expect((await gateway.call('GET', organization, session)).json.rate_limits).toBeNull();
  });
});

test.each([
  ['requests_per_minute', 10_000_000],
  ['tokens_per_minute', 2_000_000_000],
  ['concurrent_requests', 1_000_000],
])('a key may have %s up to %d, the most that replicas can share, and no more', async (name, most) => {
  const { id } = await gateway.createKey(session);
  const put = (limit: number) =>
    gateway.call('PUT', `/api/v1/admin/keys/${id}/rate-limits`, session, { [name]: limit });
  const { status, json } = await put(most + 1);
  expect(status).toBe(400);
  expect(json.error.param).toBe(name);
  expect((await put(most)).json.rate_limits[name]).toBe(most);
  await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session);
});

describe('a key that exceeds its limits', () => {
  const keyWith = async (limits: Record<string, number>, fields: Record<string, unknown> = {}) => {
    const made = await gateway.createKey(session, fields);
    await gateway.call('PUT', `/api/v1/admin/keys/${made.id}/rate-limits`, session, limits);
    return made;
  };

  test('gets 429 with Retry-After of a minute at most and its current limits, while others go on', async () => {
    const { key } = await keyWith({ requests_per_minute: 3 });
    const answers = [];
    for (let call = 0; call < 5; call++) answers.push(await chat(key));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    const { json, headers } = answers[4]!;
    expect(json.error).toMatchObject({ type: 'requests', code: 'rate_limit_exceeded', param: null });
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(headers.get('x-should-retry')).toBeNull();
    expect(headers.get('x-ratelimit-remaining-requests')).toBe('0');
    expect(headers.get('x-ratelimit-limit-requests')).toBe('3');
    const other = await gateway.createKey(session);
    expect((await chat(other.key)).status).toBe(200);
  });

  test('is charged its estimate, and refunded what it did not use', async () => {
    const { key } = await keyWith({ tokens_per_minute: 2_000 });
    // 1,500 tokens are reserved and a handful used: two such calls fit one after the other, not at once.
    const asking = { max_tokens: 1_500, messages: [{ role: 'user', content: 'Say hi in one word' }] };
    const first = await chat(key, asking);
    expect(first.status).toBe(200);
    const used = first.json.usage.total_tokens;
    const left = async () => Number((await chat(key, { max_tokens: 1 })).headers.get('x-ratelimit-remaining-tokens'));
    await waitFor(async () => (await left()) > 2_000 - used - 200, {
      description: 'the unused estimate to be given back',
    });

    const tooMuch = await keyWith({ tokens_per_minute: 2_000 });
    const both = await Promise.all([chat(tooMuch.key, asking), chat(tooMuch.key, asking)]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 429]);
    expect(both.find(({ status }) => status === 429)!.json.error).toMatchObject({
      type: 'tokens',
      code: 'rate_limit_exceeded',
    });
  });

  test('may send several photos at once, as calls and as jobs: their length is not held as that of a text', async () => {
    const { id, key } = await gateway.createKey(session);
    const photo = `data:image/jpeg;base64,${randomBytes(2_000_000).toString('base64')}`;
    const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: photo } }] }];
    const asking = [{ messages }, { messages }, { messages, background: true }, { messages, background: true }];
    const answers = await Promise.all(asking.map((fields) => chat(key, fields)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 202, 202]);
    // A second of the limit is 3,333 tokens.
    expect(Number((await chat(key)).headers.get('x-ratelimit-remaining-tokens'))).toBeGreaterThan(180_000);
    await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session);
  });

  test('has no more concurrent calls than it may', async () => {
    const { key } = await keyWith({ concurrent_requests: 2 });
    const answers = await Promise.all(Array.from({ length: 6 }, () => chat(key, { max_tokens: 200 })));
    const served = answers.filter(({ status }) => status === 200).length;
    expect(served).toBeGreaterThanOrEqual(2);
    expect(answers.some(({ status }) => status === 429)).toBe(true);
    // Nothing is running any more: the room is free.
    expect((await chat(key)).status).toBe(200);
  });

  test('has none of its concurrency taken by a job that waits, or by a call that its budget refuses', async () => {
    const { id, key } = await keyWith({ concurrent_requests: 1 });
    for (let job = 0; job < 3; job++) expect((await chat(key, { background: true })).status).toBe(202);
    expect((await chat(key)).status).toBe(200);

    const broke = await keyWith({ concurrent_requests: 1 }, { spend_cap_usd: 0 });
    for (let call = 0; call < 3; call++) {
      expect((await chat(broke.key)).json.error).toMatchObject({ code: 'spend_cap_exceeded' });
    }
    // A user has 10 keys at most.
    for (const used of [id, broke.id]) await gateway.call('DELETE', `/api/v1/api-keys/${used}`, session);
  });

  test('sessions are counted per user, apart from the user’s keys', async () => {
    expect((await limitsSeenBy(session)).remaining.requests_per_minute).toBe(600);
    // The state at the time of the call: a tenth of a second later there is room for another.
    expect((await chat(session)).headers.get('x-ratelimit-remaining-requests')).toBe('599');
  });
});

/** Until all replicas have reported once more, and have heard how many they are. */
async function untilReported(replicas: number): Promise<void> {
  const client = new pg.Client({ connectionString: gateway.env.databaseUrl! });
  await client.connect();
  try {
    // The second report of each shows that the answer to its first has arrived.
    for (let report = 0; report < 2; report++) {
      const { rows } = await client.query<{ at: string }>('select now()::text as at');
      await waitFor(
        async () => {
          const seen = await client.query('select 1 from usage.rate_limit_replicas where seen_at > $1', [rows[0]!.at]);
          return seen.rowCount! >= replicas;
        },
        { description: `a report of ${replicas} replicas`, timeoutMs: 10_000 },
      );
    }
  } finally {
    await client.end();
  }
}

test('two edges together let through what one would, and share it by demand', async () => {
  await using second = await startTestGateway({ databaseUrl: gateway.env.databaseUrl! });
  await untilReported(2);
  const { id, key } = await gateway.createKey(session);
  const limit = 60;
  await gateway.call('PUT', `/api/v1/admin/keys/${id}/rate-limits`, session, { requests_per_minute: limit });
  let served = 0;
  const startedMs = performance.now();
  // Evenly at both, then at one alone: its share grows to what the other does not need.
  for (let round = 0; round < 8; round++) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => chat(key, { max_tokens: 1 }, index % 2 === 0 ? gateway : second)),
    );
    served += answers.filter(({ status }) => status === 200).length;
    for (const { status } of answers) expect([200, 429]).toContain(status);
  }
  const minutes = (performance.now() - startedMs) / 60_000;
  // A minute's bucket plus what has leaked out of it since: without grants, twice as many would be served.
  expect(served).toBeLessThanOrEqual(1.01 * (limit + limit * minutes));
  expect(served).toBeGreaterThanOrEqual(limit * 0.5);
  const { limits, remaining } = await limitsSeenBy((await gateway.createKey(session, { key_type: 'management' })).key);
  expect(limits.requests_per_minute).toBe(600);
  expect(remaining.requests_per_minute).toBe(600);
});
