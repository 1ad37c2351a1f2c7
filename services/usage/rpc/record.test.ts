import { afterAll, beforeAll, expect, test } from 'vitest';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { keyId, tenantId, testEvent, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';

let usage: TestUsage;
beforeAll(async () => {
  usage = await startTestUsage();
});
afterAll(() => usage[Symbol.asyncDispose]());

const me = (number: number) => asPerson({ tenantId: testId(number), userId });

test('a repeated batch is accepted once, and its sums stay as they were', async () => {
  const events = [
    testEvent(testNowMs - 1000),
    testEvent(testNowMs - 2000, { success: false, errorCode: 'overloaded' }),
  ];
  const first = await usage.client.record({ events }, asService());
  expect(first).toMatchObject({ accepted: 2, duplicates: 0, rejected: [] });
  const before = await usage.client.getCurrent({}, asPerson({ tenantId, userId }));

  const second = await usage.client.record({ events: [...events].reverse() }, asService());
  expect(second).toMatchObject({ accepted: 0, duplicates: 2 });
  expect(await usage.client.getCurrent({}, asPerson({ tenantId, userId }))).toEqual(before);
  expect(before.measures).toMatchObject({
    requests: 2n,
    successfulRequests: 1n,
    failedRequests: 1n,
    inputTokens: 20n,
    outputTokens: 10n,
    totalTokens: 30n,
    durationMs: 200n,
    costNanoUsd: 2000n,
  });
  expect(before.models).toMatchObject([{ name: 'small-chat', measures: { requests: 2n } }]);
});

test('an event that occurs twice in its batch is stored once', async () => {
  const event = testEvent(testNowMs, { tenantId: testId(100) });
  const answer = await usage.client.record({ events: [event, event] }, asService());
  expect(answer).toMatchObject({ accepted: 1, duplicates: 1 });
  const { measures } = await usage.client.getCurrent({}, me(100));
  expect(measures?.requests).toBe(1n);
});

test('a bad event is refused by itself, and the others of its batch are stored', async () => {
  const good = () => testEvent(testNowMs, { tenantId: testId(101) });
  const bad = [
    testEvent(testNowMs, { id: testId(1).replace('-7000-', '-4000-') }),
    testEvent(testNowMs, { id: 'x' }),
    testEvent(testNowMs, { tenantId: '' }),
    testEvent(testNowMs, { apiKeyId: 'key' }),
    testEvent(testNowMs, { model: '' }),
    testEvent(testNowMs, { requestId: 'a\0b' }),
    testEvent(testNowMs, { usage: { costNanoUsd: -1n } }),
    testEvent(testNowMs, { usage: { inputTokens: 2n ** 60n } }),
    testEvent(testNowMs + 40 * 24 * 3_600_000),
    testEvent(Date.UTC(2019, 11, 31)),
    testEvent(testNowMs, { leaseIds: ['lease'] }),
  ];
  const answer = await usage.client.record({ events: [good(), ...bad, good()] }, asService());
  expect(answer.accepted).toBe(2);
  expect(answer.rejected.map(({ index }) => index)).toEqual(bad.map((_event, index) => index + 1));
  expect(answer.rejected.map(({ eventId }) => eventId)).toEqual(bad.map(({ id }) => id));
  expect(answer.rejected[0]?.reason).toBe('id is not a UUIDv7');
});

test('every new event of a full batch is stored, and a bad one is reported by its position', async () => {
  const events = Array.from({ length: 1_000 }, (_, number) =>
    testEvent(testNowMs - number, { tenantId: testId(107), ...(number === 700 ? { model: '' } : {}) }),
  );
  await usage.client.record({ events: [events[300]!] }, asService());
  const answer = await usage.client.record({ events }, asService());
  expect(answer).toMatchObject({ accepted: 998, duplicates: 1, rejected: [{ index: 700, eventId: events[700]!.id }] });
  expect((await usage.client.getCurrent({}, me(107))).measures).toMatchObject({ requests: 999n, inputTokens: 9990n });
});

test('events of any month find their partition', async () => {
  const months = [Date.UTC(2025, 0, 31, 23, 59, 59, 999), Date.UTC(2025, 1, 1), Date.UTC(2026, 7, 1)];
  const events = months.map((ms) => testEvent(ms, { tenantId: testId(102) }));
  expect((await usage.client.record({ events }, asService())).accepted).toBe(3);
  const { events: listed } = await usage.client.listHistory({}, me(102));
  expect(listed.map(({ id }) => id)).toEqual(events.map(({ id }) => id).reverse());
});

test('history returns an event as it was recorded', async () => {
  const event = testEvent(testNowMs, {
    tenantId: testId(103),
    sessionId: testId(8),
    apiKeyId: '',
    deploymentId: testId(9),
    success: false,
    status: 502,
    errorCode: 'upstream_error',
    usage: { cachedInputTokens: 3n, images: 1n, audioMs: 1500n, characters: 7n },
    latencyMs: 4_294_967_295,
    ttftMs: 0,
    streamed: true,
    priceVersionId: testId(10),
    jobId: testId(11),
    leaseIds: [testId(12), testId(13)],
  });
  await usage.client.record({ events: [event] }, asService());
  const { events, pageInfo } = await usage.client.listHistory({}, me(103));
  expect(events).toEqual([event]);
  expect(pageInfo).toMatchObject({ page: 1, limit: 50, total: 1n, totalPages: 1, hasNext: false, hasPrev: false });
});

test('texts with any characters and the largest numbers are stored unchanged', async () => {
  const texts = ['\\t\t\\N\n\r"{}', '模型'.repeat(120), '😀'.repeat(127), 'ñ'];
  const largest = 1_000_000_000_000n;
  const events = texts.map((text) =>
    testEvent(testNowMs, {
      tenantId: testId(106),
      model: text,
      endpoint: text,
      requestId: text,
      errorCode: text,
      usage: { inputTokens: largest, images: 0n, costNanoUsd: 1_000n * largest },
    }),
  );
  expect((await usage.client.record({ events }, asService())).rejected).toEqual([]);
  const { events: listed } = await usage.client.listHistory({}, me(106));
  expect(listed.map(({ id }) => events.find((event) => event.id === id))).toEqual(listed);
  const { measures, models } = await usage.client.getCurrent({}, me(106));
  expect(measures).toMatchObject({ inputTokens: 4n * largest, costNanoUsd: 4_000n * largest });
  expect(models.map(({ name }) => name).sort()).toEqual([...texts].sort());
});

test('history can be filtered, paged and limited by days', async () => {
  const tenant = testId(104);
  const days = [1, 2, 3].map((day) => Date.UTC(2026, 6, day));
  const events = days.flatMap((ms) => [
    testEvent(ms, { tenantId: tenant }),
    testEvent(ms + 24 * 3_600_000 - 1, {
      tenantId: tenant,
      model: 'other',
      endpoint: '/v1/embeddings',
      apiKeyId: testId(5),
    }),
  ]);
  await usage.client.record({ events }, asService());
  const list = async (request: Parameters<typeof usage.client.listHistory>[0]) => {
    const answer = await usage.client.listHistory(request, me(104));
    const at = answer.events.map(({ id }) => events.findIndex((event) => event.id === id));
    return {
      at,
      total: Number(answer.pageInfo?.total),
      next: answer.pageInfo?.hasNext,
      prev: answer.pageInfo?.hasPrev,
    };
  };
  const all = { next: false, prev: false };
  expect(await list({ range: { startDate: '2026-07-02', endDate: '2026-07-02' } })).toEqual({
    at: [3, 2],
    total: 2,
    ...all,
  });
  expect(await list({ range: { startDate: '2026-07-03' } })).toEqual({ at: [5, 4], total: 2, ...all });
  expect(await list({ range: { endDate: '2026-07-01' } })).toEqual({ at: [1, 0], total: 2, ...all });
  const auckland = { startDate: '2026-07-02', endDate: '2026-07-02', timezone: 'Pacific/Auckland' };
  expect(await list({ range: auckland })).toEqual({ at: [2, 1], total: 2, ...all });
  expect(await list({ filter: { model: 'other' } })).toEqual({ at: [5, 3, 1], total: 3, ...all });
  expect(await list({ filter: { endpoint: '/v1/embeddings' } })).toEqual({ at: [5, 3, 1], total: 3, ...all });
  expect(await list({ filter: { apiKeyId: keyId } })).toEqual({ at: [4, 2, 0], total: 3, ...all });
  expect(await list({ limit: 2, offset: 3 })).toEqual({ at: [2, 1], total: 6, next: true, prev: true });
  expect(await list({ limit: 2, offset: 100 })).toEqual({ at: [], total: 6, next: false, prev: true });
});

test('concurrent batches with the same events count each once', async () => {
  const tenant = testId(105);
  const events = Array.from({ length: 200 }, (_, index) =>
    testEvent(testNowMs - index * 400_000, { tenantId: tenant, model: `model-${index % 7}` }),
  );
  const shuffled = () => [...events].sort(() => Math.random() - 0.5);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => usage.client.record({ events: shuffled() }, asService())),
  );
  expect(answers.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(200);
  const { measures } = await usage.client.getCurrent({}, me(105));
  expect(measures).toMatchObject({ requests: 200n, inputTokens: 2000n, costNanoUsd: 200_000n });
});

test('only services may record', async () => {
  const call = usage.client.record({ events: [testEvent(testNowMs)] }, asPerson({ tenantId, userId }));
  await expect(call).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
});

test('a member is refused the tenant scope', async () => {
  const call = usage.client.getCurrent({ scope: UsageScope.TENANT }, asPerson({ tenantId, userId }));
  await expect(call).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
});

test('the lag from the end of a call to its stored row is measured', async () => {
  await usage.client.record({ events: [testEvent(testNowMs - 600, { latencyMs: 200 })] }, asService());
  const text = await usage.registry.metrics();
  expect(text).toContain('gateway_usage_lag_seconds_bucket{le="0.5"}');
  expect(text).toMatch(/gateway_usage_events_total\{outcome="rejected"\} 12/);
});
