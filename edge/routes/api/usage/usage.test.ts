import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { DescribeKeysResponseSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { keyId, testEvent, testId, userId } from '../../../../services/usage/fixtures/test-events.ts';
import { asService, testNowMs } from '../../../../services/usage/fixtures/test-usage.ts';
import { startUsageEdge, type UsageEdge } from '../../../fixtures/usage-edge.ts';

let edge: UsageEdge;
const events = [
  testEvent(testNowMs - 2_000, {
    requestId: 'req_a',
    jobId: testId(5),
    latencyMs: 1_500,
    ttftMs: 30,
    usage: { inputTokens: 10n, cachedInputTokens: 4n, outputTokens: 5n, audioMs: 2_500n, costNanoUsd: 12_345n },
  }),
  testEvent(testNowMs - 1_000, {
    apiKeyId: '',
    sessionId: testId(9),
    model: '=cmd("x")',
    success: false,
    status: 502,
    errorCode: 'upstream_error',
    latencyMs: 500,
    usage: { inputTokens: 0n, outputTokens: 0n, costNanoUsd: 100_000_000n },
  }),
];
/** What Keys does during a test; otherwise it knows no key. */
let describeKeys: NonNullable<Parameters<typeof startUsageEdge>[0]>['describeKeys'];
beforeAll(async () => {
  edge = await startUsageEdge({
    describeKeys: async (...call) => (await describeKeys?.(...call)) ?? create(DescribeKeysResponseSchema),
  });
  await edge.usage.client.record({ events }, asService());
});
afterAll(() => edge[Symbol.asyncDispose]());
afterEach(() => {
  describeKeys = undefined;
});

const json = async (path: string, token?: string) => {
  const { status, body } = await edge.get(path, token);
  expect(status, body).toBe(200);
  return JSON.parse(body);
};

const sums = {
  requests: 2,
  successful_requests: 1,
  failed_requests: 1,
  input_tokens: 10,
  cached_input_tokens: 4,
  output_tokens: 5,
  total_tokens: 15,
  images: 0,
  audio_seconds: 2.5,
  characters: 0,
  duration_seconds: 2,
  cost_usd: 0.100012345,
};

test('filtering by endpoint works with either prefix, since calls under both are metered by one name', async () => {
  for (const path of ['/v1/chat/completions', '/api/v1/chat/completions']) {
    expect((await json(`/usage/history?endpoint=${path}`)).pagination.total, path).toBe(2);
    const range = 'start_date=2026-07-15&end_date=2026-07-15';
    expect((await json(`/usage/summary?${range}&endpoint=${path}`)).requests, path).toBe(2);
  }
  expect((await json('/usage/history?endpoint=/api/v1/embeddings')).pagination.total).toBe(0);
});

test('only calls that succeeded, or only those that failed, are listed', async () => {
  const outcomes = async (query: string) =>
    (await json(`/usage/history?${query}`)).data.map(({ success }: { success: boolean }) => success);
  expect(await outcomes('success=true')).toEqual([true]);
  expect(await outcomes('success=false')).toEqual([false]);
  expect((await edge.get('/usage/history?success=maybe')).status).toBe(400);
});

test('an admin lists and sums what one user did; with their own usage alone, nobody learns of another’s', async () => {
  const dates = 'start_date=2026-07-15&end_date=2026-07-15';
  const requests = async (query: string, token?: string) => [
    (await json(`/usage/history?${query}`, token)).pagination.total,
    (await json(`/usage/summary?${dates}&${query}`, token)).requests,
    (await json(`/usage/report?${dates}&${query}`, token)).totals.requests,
  ];
  expect(await requests(`scope=tenant&user_id=${userId}`, 'owner')).toEqual([2, 2, 2]);
  expect(await requests(`scope=tenant&user_id=${testId(8)}`, 'owner')).toEqual([0, 0, 0]);
  expect(await requests(`user_id=${userId}`)).toEqual([2, 2, 2]);
  expect(await requests(`user_id=${testId(8)}`)).toEqual([0, 0, 0]);
});

test('a call is found by the x-request-id of its answer, or by its own id, whatever else is there', async () => {
  const found = async (query: string) => {
    const { data, pagination } = await json(`/usage/history?${query}`);
    expect(pagination.total).toBe(data.length);
    return data.map((event: { request_id: string }) => event.request_id);
  };
  expect(await found('request_id=req_a')).toEqual(['req_a']);
  expect(await found('request_id=req_a&success=true&model=small-chat')).toEqual(['req_a']);
  expect(await found('request_id=req_a&success=false')).toEqual([]);
  expect(await found('request_id=req_a&end_date=2020-01-01')).toEqual([]);
  expect(await found('request_id=req_unknown')).toEqual([]);
  const [{ id }] = (await json('/usage/history?request_id=req_a')).data;
  expect(await found(`event_id=${id}`)).toEqual(['req_a']);
  expect(await found(`event_id=${id.replace(/.{12}$/, '0'.repeat(12))}`)).toEqual([]);
});

test('the current month, under both paths', async () => {
  const current = await json('/usage/current');
  expect(current).toMatchObject({
    period_start: '2026-07-01T00:00:00.000Z',
    period_end: '2026-08-01T00:00:00.000Z',
    ...sums,
    models: [{ model: '=cmd("x")' }, { model: 'small-chat', requests: 1 }],
  });
  expect(await json('/usage')).toEqual(current);
  expect((await edge.get('/usage/current')).body).toContain('"cost_usd":0.100012345');
});

test('a page of the history continues after the pages before it', async () => {
  const { data: all } = await json('/usage/history');
  for (const page of [1, 2, 3]) {
    const { data, pagination } = await json(`/usage/history?page=${page}&limit=1`);
    expect(data).toEqual(all.slice(page - 1, page));
    expect(pagination).toMatchObject({ page, has_prev: page > 1 });
  }
});

test('the history has every field of an event', async () => {
  const { data, pagination } = await json('/usage/history?start_date=2026-07-15&end_date=2026-07-15&limit=1&offset=1');
  expect(data).toEqual([
    {
      id: events[0]!.id,
      occurred_at: '2026-07-15T11:59:58.000Z',
      api_key_id: keyId,
      user_id: userId,
      model: 'small-chat',
      endpoint: '/v1/chat/completions',
      operation: 'chat_completions',
      success: true,
      status: 200,
      error_code: null,
      input_tokens: 10,
      cached_input_tokens: 4,
      output_tokens: 5,
      total_tokens: 15,
      images: 0,
      audio_seconds: 2.5,
      characters: 0,
      latency_ms: 1_500,
      ttft_ms: 30,
      cost_usd: 0.000012345,
      request_id: 'req_a',
      job_id: `job_${testId(5).replaceAll('-', '')}`,
    },
  ]);
  expect(pagination).toEqual({ page: 2, limit: 1, total: 2, total_pages: 2, has_next: false, has_prev: true });
});

test('the summary, the report and the breakdown', async () => {
  const range = 'start_date=2026-07-15&end_date=2026-07-16';
  expect(await json(`/usage/summary?${range}`)).toMatchObject({
    ...sums,
    by_model: [{ requests: 1 }, { model: 'small-chat' }],
    by_endpoint: [{ endpoint: '/v1/chat/completions', ...sums }],
    by_api_key: [{ api_key_id: null }, { api_key_id: keyId }],
  });
  const report = await json(`/usage/report?${range}&group_by=model&timezone=Asia/Kathmandu`);
  expect(report).toMatchObject({ granularity: 'daily', timezone: 'Asia/Kathmandu', totals: sums });
  expect(report.buckets).toMatchObject([
    { start: '2026-07-14T18:15:00.000Z', end: '2026-07-15T18:15:00.000Z', ...sums, groups: [{}, {}] },
    { start: '2026-07-15T18:15:00.000Z', requests: 0, cost_usd: 0, groups: [] },
  ]);
  expect((await json(`/usage/report?${range}`)).buckets[0]).not.toHaveProperty('groups');
  expect((await json('/usage/tenant-breakdown', 'owner')).users).toEqual([
    { user_id: userId, email: 'me@example.test', requests: 2, tokens: 15, cost_usd: 0.100012345 },
  ]);
});

describe('usage by key while Keys', () => {
  const range = 'start_date=2026-07-15&end_date=2026-07-15';
  const outages: [what: string, describe: typeof describeKeys][] = [
    ['is out of reach', () => Promise.reject(gatewayError(ErrorReason.OVERLOADED, 'away'))],
    [
      'does not answer',
      (_, options) =>
        new Promise((_, reject) => options?.signal?.addEventListener('abort', () => reject(options.signal?.reason))),
    ],
  ];
  test.each(outages)('%s is answered all the same, without the names', async (_, describe) => {
    const path = `/usage/summary?${range}`;
    const known = await json(path);
    describeKeys = async ({ keyIds = [] }) =>
      create(DescribeKeysResponseSchema, { keys: keyIds.map((keyId) => ({ keyId, name: 'known' })) });
    expect((await json(path)).by_api_key).toMatchObject([
      { api_key_id: null, api_key_name: null, api_key_deleted: null },
      { api_key_id: keyId, api_key_name: 'known', api_key_deleted: false },
    ]);
    describeKeys = describe;
    const summary = await json(path);
    expect(summary).toEqual(known);
    expect(summary.by_api_key[1]).toMatchObject({ api_key_id: keyId, api_key_name: null, requests: 1 });
    const { buckets } = await json(`/usage/report?${range}&group_by=api_key`);
    expect(buckets[0].groups).toMatchObject([
      { api_key_id: null, api_key_name: null },
      { api_key_id: keyId, api_key_name: null },
    ]);
  });
});

test('the breakdown without days covers the current month in the requested zone', async () => {
  for (const [query, start, end] of [
    ['', '2026-07-01T00:00:00.000Z', '2026-08-01T00:00:00.000Z'],
    ['?timezone=Asia/Kathmandu', '2026-06-30T18:15:00.000Z', '2026-07-31T18:15:00.000Z'],
  ]) {
    expect((await json(`/usage/tenant-breakdown${query}`, 'owner')).range).toEqual({ start, end });
  }
});

test('key analytics contain volume and no cost, and zeros have the same bytes for every unknown key', async () => {
  const report = await json(`/usage/api-keys/${keyId}/analytics`);
  expect(report).toMatchObject({
    key_id: keyId,
    granularity: 'daily',
    range: { start: '2026-07-09T00:00:00.000Z', end: '2026-07-16T00:00:00.000Z' },
    timezone: 'UTC',
    totals: { requests: 1, successful_requests: 1, failed_requests: 0, total_tokens: 15 },
    previous_totals: { requests: 0 },
    by_model: [{ model: 'small-chat', requests: 1 }],
    performance: { available: true, p50_latency_ms: 1_500, cache_hits: 1, cached_tokens: 4, tokens_per_second: 3.333 },
    recent_activity: [{ status: 'Success', operation: 'chat_completions', latency_ms: 1_500 }],
  });
  expect(report.series).toHaveLength(7);
  expect(JSON.stringify(report)).not.toContain('cost');
  expect(report).toMatchObject({
    key_name: null,
    key_deleted: null,
    key_status: null,
    key_preview: null,
    key_user_id: null,
  });
  const known = { keyId, userId, name: 'known', keyPreview: 'sk-proj-a...b' };
  describeKeys = async () => create(DescribeKeysResponseSchema, { keys: [{ ...known, status: KeyStatus.REVOKED }] });
  expect(await json(`/usage/api-keys/${keyId}/analytics`)).toEqual({
    ...report,
    key_name: 'known',
    key_deleted: false,
    key_status: 'revoked',
    key_preview: 'sk-proj-a...b',
    key_user_id: userId,
  });
  describeKeys = async () => create(DescribeKeysResponseSchema, { keys: [{ ...known, deleted: true }] });
  expect(await json(`/usage/api-keys/${keyId}/analytics`)).toMatchObject({ key_deleted: true, key_status: null });
  expect(await json(`/usage/api-keys/${keyId}/analytics?model_name=another`)).toMatchObject({
    totals: { requests: 0 },
    by_model: [{ model: 'small-chat', requests: 1 }],
  });
  const zeros = async (key: string) => {
    const { status, body } = await edge.get(
      `/usage/api-keys/${key}/analytics?granularity=hourly&start_date=2026-07-15`,
    );
    expect(status).toBe(200);
    return body.replaceAll(key, 'KEY');
  };
  expect(await zeros('nobody')).toBe(await zeros(testId(500)));
  const wide = await json(`/usage/api-keys/${keyId}/analytics?start_date=2026-06-01`);
  expect(wide.performance).toEqual({
    available: false,
    p50_latency_ms: null,
    p95_latency_ms: null,
    cache_hits: null,
    cache_misses: null,
    cached_tokens: null,
    tokens_per_second: null,
  });
});

test('the export is CSV with exact money, and no cell is a formula', async () => {
  const { status, body, headers } = await edge.get('/usage/export?start_date=2026-07-01&end_date=2026-07-31', 'owner');
  expect(status).toBe(200);
  expect(headers['content-type']).toContain('text/csv');
  expect(headers['content-disposition']).toBe('attachment; filename="usage_2026-07-01_2026-07-31.csv"');
  const lines = body.split('\r\n');
  expect(lines).toHaveLength(4);
  expect(lines[0]).toMatch(/^id,occurred_at,api_key_id,user_id,model,.*,cost_usd,request_id,job_id,api_key_name$/);
  expect(lines[1]).toMatch(/,0.000012345,req_a,job_[0-9a-f]{32},$/);
  expect(lines[2]).toContain(`,"'=cmd(""x"")",`);
});

test('the export shows keys by their names, including others’ and deleted ones, and no name is a formula', async () => {
  const asked: unknown[] = [];
  describeKeys = async (request) => {
    asked.push(request);
    return create(DescribeKeysResponseSchema, { keys: [{ keyId, name: '=HYPERLINK("x")', deleted: true }] });
  };
  const { body } = await edge.get('/usage/export?start_date=2026-07-01&end_date=2026-07-31', 'owner');
  const lines = body.split('\r\n');
  expect(lines[1]).toMatch(/,req_a,job_[0-9a-f]{32},"'=HYPERLINK\(""x""\)"$/);
  // A session has no name.
  expect(lines[2]).toMatch(/,$/);
  expect(asked).toMatchObject([{ keyIds: [keyId] }]);
});

test('no name becomes a formula in a spreadsheet that splits cells at semicolons or reads full-width signs', async () => {
  describeKeys = async () =>
    create(DescribeKeysResponseSchema, { keys: [{ keyId, name: "a;=cmd|'/C x'!A0;＝1;-", deleted: false }] });
  const { body } = await edge.get('/usage/export?start_date=2026-07-01&end_date=2026-07-31', 'owner');
  expect(body.split('\r\n')[1]).toMatch(/,req_a,job_[0-9a-f]{32},a;'=cmd\|'\/C x'!A0;'＝1;'-$/);
});

test('limits and what is left', async () => {
  const limits = { requests_per_minute: 60, tokens_per_minute: 200_000, concurrent_requests: 100 };
  const answer = { limits, remaining: limits, reset_seconds: { requests_per_minute: 0, tokens_per_minute: 0 } };
  expect(await json('/rate-limits')).toEqual(answer);
  expect(await json('/profile/rate-limits', 'key:rate_limits:read')).toEqual(answer);
});

describe('refusals', () => {
  const dates = 'start_date=2026-07-01&end_date=2026-07-02';
  test.each([
    '/usage/current?scope=tenant',
    '/usage/history?scope=tenant',
    `/usage/summary?${dates}&scope=tenant`,
    `/usage/report?${dates}&scope=tenant`,
    '/usage/tenant-breakdown',
    `/usage/export?${dates}`,
  ])('a member gets 403 from %s, and is told who may', async (path) => {
    const { status, body } = await edge.get(path);
    expect([status, JSON.parse(body).error]).toMatchObject([
      403,
      { code: 'insufficient_role', message: 'Only admins and owners of the organization may do this.' },
    ]);
  });

  test.each([
    ['/usage', 'usage:read_current'],
    ['/usage/current', 'usage:read_current'],
    ['/usage/history', 'usage:read_history'],
    [`/usage/summary?${dates}`, 'usage:read_summary'],
    [`/usage/report?${dates}`, 'usage:read_report'],
    [`/usage/api-keys/${keyId}/analytics`, 'usage:read_report'],
    ['/rate-limits', 'rate_limits:read'],
  ])('%s needs the scope %s for a key', async (path, scope) => {
    expect((await edge.get(path, `key:${scope}`)).status).toBe(200);
    const refused = await edge.get(path, 'key:billing:read_current');
    expect(refused.status).toBe(403);
    expect(refused.body).toContain(scope);
  });

  test('the breakdown needs the role in addition to the scope, and the export accepts no key', async () => {
    expect((await edge.get('/usage/tenant-breakdown', 'key:usage:read_breakdown')).status).toBe(403);
    expect((await edge.get(`/usage/export?${dates}`, 'key:usage:read_report')).status).toBe(403);
  });
});
