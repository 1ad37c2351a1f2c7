import { timestampDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyAnalytics } from '#gen/modelgateway/usage/v1/key_analytics_pb.ts';
import { Granularity } from '#gen/modelgateway/usage/v1/report_pb.ts';
import type { GetKeyAnalyticsRequest } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { keyId, tenantId, testEvent, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';

const teammate = testId(20);
const dayMs = 24 * 3_600_000;
const owner = asPerson({ tenantId, userId });
const admin = asPerson({ tenantId, userId: teammate, role: Role.ADMIN });

/** What Keys knows: also of a key that was never used, and of one of another organization. */
const allKeys = [
  { tenantId, keyId, userId, name: 'mine', keyPreview: 'sk-proj-aaaa...aaaa', deleted: false },
  { tenantId, keyId: testId(21), userId: teammate, name: 'theirs', keyPreview: 'sk-proj-bbbb...bbbb', deleted: true },
  { tenantId, keyId: testId(23), userId: teammate, name: 'unused', keyPreview: 'sk-proj-cccc...cccc', deleted: false },
  { tenantId: testId(77), keyId: testId(24), userId: testId(79), name: 'foreign', keyPreview: '', deleted: false },
];
const isAmong = (key: { tenantId: string; keyId: string }, asked: { tenantId?: string; keyIds?: string[] }) =>
  key.tenantId === asked.tenantId && asked.keyIds!.includes(key.keyId);

let usage: TestUsage;
beforeAll(async () => {
  usage = await startTestUsage({
    keys: {
      describeKeys: async (asked) => ({ keys: allKeys.filter((key) => isAmong(key, asked)) }) as never,
    },
  });
  const at = (daysAgo: number, fields = {}) => testEvent(testNowMs - daysAgo * dayMs, fields);
  const events = [
    // Twenty calls today with latencies of 10, 20 … 200 ms, every fourth with cached tokens.
    ...Array.from({ length: 20 }, (_, index) =>
      testEvent(testNowMs - index * 60_000, {
        latencyMs: (index + 1) * 10,
        usage: { inputTokens: 10n, cachedInputTokens: index % 4 === 0 ? 8n : 0n, outputTokens: 21n },
      }),
    ),
    at(1, {
      model: 'other',
      success: false,
      errorCode: 'model_sunset',
      latencyMs: 9_999,
      usage: { inputTokens: 0n, outputTokens: 0n },
    }),
    at(6, { model: 'other', latencyMs: 1 }),
    // In the previous period, and one a day before that.
    at(7),
    at(13, { model: 'other' }),
    at(14),
    // A teammate's key and a session.
    at(0, { userId: teammate, apiKeyId: testId(21) }),
    at(0, { apiKeyId: '', sessionId: testId(22) }),
    // The latest of all, failed without a code.
    testEvent(testNowMs + 1000, { success: false, usage: { inputTokens: 0n, outputTokens: 0n } }),
  ];
  // Some of the days are summed, and half of their events arrive late.
  await usage.client.record({ events: events.filter((_, index) => index % 2 === 0) }, asService());
  await usage.gatherDays();
  await usage.client.record({ events: events.filter((_, index) => index % 2 === 1) }, asService());
});
afterAll(() => usage[Symbol.asyncDispose]());

async function analytics(
  request: Partial<Omit<GetKeyAnalyticsRequest, 'range'>> & {
    range?: { startDate?: string; endDate?: string; timezone?: string };
  } = {},
  caller = owner,
): Promise<KeyAnalytics> {
  return (await usage.client.getKeyAnalytics({ keyId, ...(request as object) }, caller)).analytics!;
}
const requestsOf = (report: KeyAnalytics) => ({
  totals: Number(report.totals?.requests),
  previous: Number(report.previousTotals?.requests),
  series: report.series.map(({ measures }) => Number(measures?.requests)),
  byModel: report.byModel.map(({ model, measures }) => [model, Number(measures?.requests)]),
});

test('the default is the last seven days, daily, in UTC, with the seven days before', async () => {
  const report = await analytics();
  expect(report).toMatchObject({ keyId, granularity: Granularity.DAILY, timezone: 'UTC' });
  expect(timestampDate(report.range!.start!).toISOString()).toBe('2026-07-09T00:00:00.000Z');
  expect(timestampDate(report.range!.end!).toISOString()).toBe('2026-07-16T00:00:00.000Z');
  expect(requestsOf(report)).toEqual({
    totals: 23,
    previous: 2,
    series: [1, 0, 0, 0, 0, 1, 21],
    byModel: [
      ['small-chat', 21],
      ['other', 2],
    ],
  });
  expect(report.totals).toMatchObject({
    successfulRequests: 21n,
    failedRequests: 2n,
    inputTokens: 210n,
    outputTokens: 425n,
    totalTokens: 635n,
    cachedInputTokens: 40n,
  });
});

test('a model filters totals and series, never the breakdown', async () => {
  const report = await analytics({ modelName: 'other' });
  expect(requestsOf(report)).toEqual({
    totals: 2,
    previous: 1,
    series: [1, 0, 0, 0, 0, 1, 0],
    byModel: [
      ['small-chat', 21],
      ['other', 2],
    ],
  });
  expect(report.performance).toMatchObject({ p50LatencyMs: 1, p95LatencyMs: 1 });
});

test('performance is exact over successful calls', async () => {
  const today = { startDate: '2026-07-15', endDate: '2026-07-15' };
  const { performance } = await analytics({ range: today });
  expect(performance).toMatchObject({
    available: true,
    p50LatencyMs: 100,
    p95LatencyMs: 190,
    cacheHits: 5n,
    cacheMisses: 15n,
    cachedTokens: 40n,
    tokensPerSecond: 200,
  });
});

test('performance is left out beyond 31 days', async () => {
  const upTo31 = await analytics({ range: { startDate: '2026-06-15', endDate: '2026-07-15' } });
  expect(upTo31.performance?.available).toBe(true);
  const { performance } = await analytics({ range: { startDate: '2026-06-14', endDate: '2026-07-15' } });
  expect(performance).toEqual({ $typeName: 'modelgateway.usage.v1.KeyPerformance', available: false });
});

test('recent activity has ten rows, newest first, with a status that is not an HTTP status', async () => {
  const { recentActivity } = await analytics();
  expect(recentActivity).toHaveLength(10);
  expect(recentActivity[0]).toMatchObject({ status: 'Failed', model: 'small-chat' });
  expect(recentActivity[1]).toMatchObject({ status: 'Success', totalTokens: 31n, latencyMs: 10 });
  const times = recentActivity.map(({ occurredAt }) => timestampDate(occurredAt!).getTime());
  expect(times).toEqual(times.toSorted((a, b) => b - a));
  const yesterday = await analytics({ range: { startDate: '2026-07-14', endDate: '2026-07-14' } });
  expect(yesterday.recentActivity).toMatchObject([{ status: 'model_sunset' }]);
});

test('hours are in UTC whatever the zone; days and weeks are the zone’s', async () => {
  const range = { startDate: '2026-07-15', endDate: '2026-07-15', timezone: 'Asia/Kathmandu' };
  const hourly = await analytics({ granularity: Granularity.HOURLY, range });
  expect(hourly.timezone).toBe('UTC');
  expect(hourly.series).toHaveLength(24);
  expect(requestsOf(hourly).series[12]).toBe(2);
  expect(requestsOf(hourly).series[11]).toBe(19);
  const daily = await analytics({ range });
  expect(timestampDate(daily.series[0]!.bucketStart!).toISOString()).toBe('2026-07-14T18:15:00.000Z');
  const weekly = await analytics({
    granularity: Granularity.WEEKLY,
    range: { startDate: '2026-07-06', endDate: '2026-07-15', timezone: 'Asia/Kathmandu' },
  });
  expect(requestsOf(weekly)).toMatchObject({ totals: 24, series: [2, 22] });
});

test('a day that the zone skipped has an empty report, and the next report of anybody is as before', async () => {
  const before = await analytics();
  const range = { startDate: '2011-12-30', endDate: '2011-12-30', timezone: 'Pacific/Apia' };
  expect(requestsOf(await analytics({ range }))).toEqual({ totals: 0, previous: 0, series: [], byModel: [] });
  expect(await analytics()).toEqual(before);
});

test.each([
  [Granularity.HOURLY, '2026-07-08', 'at most 7 days'],
  [Granularity.DAILY, '2026-04-16', 'at most 90 days'],
  [Granularity.WEEKLY, '2025-07-15', 'at most 365 days'],
])('a range over the maximum of granularity %s is refused with the maximum', async (granularity, startDate, text) => {
  const call = analytics({ granularity, range: { startDate, endDate: '2026-07-15' } });
  await expect(call).rejects.toMatchObject({
    reason: ErrorReason.RANGE_TOO_LARGE,
    message: expect.stringContaining(text),
  });
});

describe('whose keys', () => {
  const zeros = async (key: string, caller = owner) => {
    const report = await analytics({ keyId: key }, caller);
    expect(report.keyId).toBe(key);
    return JSON.stringify({ ...report, keyId: '' }, (_name, value) =>
      typeof value === 'bigint' ? String(value) : value,
    );
  };

  test('unknown keys, foreign keys and a teammate’s keys all return the same zeros', async () => {
    const unknown = await zeros(testId(999));
    expect(JSON.parse(unknown)).toMatchObject({ totals: { requests: '0' }, byModel: [], recentActivity: [] });
    expect(JSON.parse(unknown).series).toHaveLength(7);
    const others = [
      zeros(testId(21)),
      zeros(testId(23)),
      zeros(testId(24)),
      zeros(testId(24), admin),
      zeros('not-a-key'),
      zeros('00000000-0000-0000-0000-000000000000'),
      zeros('ffffffff-ffff-ffff-ffff-ffffffffffff'),
      zeros(keyId, asPerson({ tenantId: testId(77), userId, role: Role.OWNER })),
      zeros(keyId, asPerson({ tenantId, userId: testId(78) })),
    ];
    for (const other of await Promise.all(others)) expect(other).toBe(unknown);
  });

  test('an admin reads any key of the organization', async () => {
    expect(requestsOf(await analytics({}, admin)).totals).toBe(23);
    expect(requestsOf(await analytics({ keyId: testId(21) }, admin)).totals).toBe(1);
  });

  test('a report says which key it is about and whose, even if it was never used or is deleted, to whoever may read it', async () => {
    const keyIn = async (asked: string, caller = owner) => (await analytics({ keyId: asked }, caller)).key;
    const mine = { name: 'mine', preview: 'sk-proj-aaaa...aaaa', userId, deleted: false };
    expect(await keyIn(keyId)).toMatchObject(mine);
    expect(await keyIn(keyId.toUpperCase(), admin)).toMatchObject(mine);
    expect(await keyIn(testId(21), admin)).toMatchObject({ name: 'theirs', userId: teammate, deleted: true });
    expect(await keyIn(testId(23), admin)).toMatchObject({ name: 'unused', userId: teammate, deleted: false });
    expect(await keyIn(testId(999), admin)).toBeUndefined();
  });
});
