import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Granularity, GroupBy, type Measures } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { Role } from '#shared/rpc/caller.ts';
import { interruptedCode, type MeteredEvent, usageEvent } from '../../services/models/metering/metered-event.ts';
import { migrations } from '../../services/usage/db/migrations/index.ts';
import { asPerson, asService, startTestUsage, type TestUsage } from '../../services/usage/fixtures/test-usage.ts';
import { ids, tenantId, truthOf } from '../support/metering/truth.ts';
import { logCollector } from '../support/rpc-carriers.ts';
import { waitFor } from '../support/wait-for.ts';

/** 200 in the long run (LONG=1). */
const kills = process.env.LONG === '1' ? 200 : 20;

const { logger } = logCollector();
let postgres: EmbeddedPostgres;
let usage: TestUsage;
let database: pg.Client;
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'usage-reconciliation-'));
  // A Postgres of its own, to be restarted and killed; with fsync, since what it has acknowledged must survive both.
  postgres = await startEmbeddedPostgres({ dataDir: join(directory, 'postgres'), logger });
  await migrateAll(postgres.url, [{ service: 'usage', migrations }], logger);
  usage = await startTestUsage({
    auth: { getUsers: async () => ({ users: [] }) as never },
    database: { url: postgres.url, drop: () => postgres.stop() },
  });
  usage.clock.set(Date.now());
  mkdirSync(journals());
});
afterAll(async () => {
  await database?.end();
  await usage?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

const journals = (): string => join(directory, 'journals');

const shuffled = <T>(items: readonly T[]): T[] =>
  items
    .map((item) => [Math.random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);

/** Usage on a bad network: calls and answers get lost, are duplicated, delayed or reordered. */
async function recordBadly(metered: readonly MeteredEvent[]): Promise<void> {
  const events = shuffled(metered.map(usageEvent));
  const record = (part: typeof events) => usage.client.record({ events: part }, asService());
  const middle = Math.ceil(events.length / 2);
  const luck = Math.random();
  if (luck < 0.1) throw new Error('the call was lost');
  if (luck < 0.3) await Promise.all([record(events), record(shuffled(events))]);
  else if (luck < 0.5 && events.length > 1)
    await Promise.all([record(events.slice(middle)), record(events.slice(0, middle + 1))]);
  else await record(events);
  if (luck > 0.8) throw new Error('the answer was lost');
}

/** The requests whose progress and whose end were reported as written. */
type Writer = { child: ChildProcess; progressed: string[]; reported: string[]; exited: Promise<unknown> };

function startWriter(name: string): Writer {
  const child = fork(join(import.meta.dirname, '../support/metering/writer.ts'), [journals(), name], {
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  child.on('message', async ({ call, events }: { call: number; events: MeteredEvent[] }) => {
    const stored = await recordBadly(events).then(
      () => true,
      () => false,
    );
    if (child.connected) child.send({ call, stored }, () => {});
  });
  const progressed: string[] = [];
  const reported: string[] = [];
  const lines = createInterface({ input: child.stdout! }).on('line', (line) => {
    if (line.startsWith('+')) progressed.push(line.slice(1));
    else reported.push(line);
  });
  return { child, progressed, reported, exited: Promise.all([once(child, 'exit'), once(lines, 'close')]) };
}

/** Stops Postgres and starts it again at once. Batches in flight are lost, or stored without being acknowledged. */
async function restartPostgres(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
  const before = postgres.pid();
  process.kill(before, signal);
  await waitFor(() => postgres.pid() !== before, { timeoutMs: 60_000, description: 'Postgres to be back' });
}

async function openDatabase(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  await client.query(`set search_path = usage; set timezone = 'UTC'`);
  return client;
}

test(`${kills} kills, lost, repeated and reordered calls, and a Postgres restarted and killed: events, roll-ups and reports hold the truth, once`, {
  timeout: kills * 30_000,
}, async () => {
  const reported: string[] = [];
  const progressed = new Set<string>();
  for (let kill = 0; kill < kills; kill += 2) {
    // Two processes on one machine, each with its own journal; the next two adopt both.
    const writers = [startWriter(`life${kill}`), startWriter(`life${kill + 1}`)];
    // Each life has a different length, so that kills fall into every phase.
    await waitFor(() => writers.every((writer, index) => writer.reported.length >= 5 + (((kill + index) * 37) % 150)), {
      timeoutMs: 30_000,
      description: 'requests before the kills',
    });
    // An orderly restart and a crash in turn, while both processes go on.
    if (kill % 8 === 6) await restartPostgres(kill % 16 === 6 ? 'SIGKILL' : 'SIGINT');
    for (const { child } of writers) child.kill('SIGKILL');
    for (const { exited } of writers) await exited;
    reported.push(...writers.flatMap((writer) => writer.reported));
    for (const requestId of writers.flatMap((writer) => writer.progressed)) progressed.add(requestId);
  }
  const last = startWriter('last');
  await waitFor(() => last.reported.length > 50, { timeoutMs: 30_000, description: 'requests after the last kill' });
  last.child.send('finish');
  await last.exited;
  reported.push(...last.reported);
  // What stayed open in the last process has no event: that process lived, and its journal remains.
  expect(readdirSync(journals()).length).toBeLessThanOrEqual(1);

  database = await openDatabase();
  const { rows: stored } = await database.query<Record<string, string>>(
    `select request_id, user_id, coalesce(api_key_id::text, '') as api_key_id, model, endpoint, success, error_code, input_tokens,
      cached_input_tokens, output_tokens, images, audio_ms, characters, latency_ms, cost_nano_usd from events`,
  );
  const byRequest = new Map(stored.map((row) => [row.request_id!, row]));
  expect(byRequest.size, 'requests which were metered twice').toBe(stored.length);
  expect(reported.filter((requestId) => byRequest.get(requestId)?.error_code === undefined)).toEqual([]);
  let interrupted = 0;
  for (const [requestId, row] of byRequest) {
    const truth = truthOf(requestId);
    if (row.error_code === interruptedCode) {
      interrupted += 1;
      const half = Math.floor(truth.outputTokens / 2);
      // A kill may fall between a begin and its progress: what was not reported as written may be lost.
      expect(progressed.has(requestId!) ? [half] : [0, half]).toContain(Number(row.output_tokens));
      continue;
    }
    expect({ ...row }).toMatchObject({
      user_id: truth.userId,
      api_key_id: truth.apiKeyId,
      model: truth.model,
      endpoint: truth.endpoint,
      success: truth.success,
      error_code: truth.errorCode,
      input_tokens: String(truth.inputTokens),
      cached_input_tokens: String(truth.cachedInputTokens),
      output_tokens: String(truth.outputTokens),
      images: String(truth.images),
      audio_ms: String(truth.audioMs),
      characters: String(truth.characters),
      latency_ms: String(truth.latencyMs),
      cost_nano_usd: String(truth.costNanoUsd),
    });
  }
  expect(interrupted).toBeGreaterThanOrEqual(kills);

  await expectEqualRollUps('rollups', `date_bin('15 minutes', at, '2000-01-01Z')`);
  await expectEqualRollUps(summed('daily_rollups', 'day'), `date_trunc('day', at, 'UTC')`);
  await expectEqualRollUps(summed('weekly_rollups', 'week'), `date_trunc('week', at, 'UTC')`);
  await expectEqualReports();
});

const measures = [
  'requests',
  'successful_requests',
  'input_tokens',
  'cached_input_tokens',
  'output_tokens',
  'images',
  'audio_ms',
  'characters',
  'duration_ms',
  'cost_nano_usd',
  'cache_hits',
  'cache_misses',
  'generating_ms',
];
const sums = `count(*)::text as requests, (count(*) filter (where success))::text as successful, sum(input_tokens)::text as input,
  sum(cached_input_tokens)::text as cached, sum(output_tokens)::text as output, sum(images)::text as images,
  sum(audio_ms)::text as audio, sum(characters)::text as characters, sum(latency_ms)::text as duration,
  sum(cost_nano_usd)::text as cost, (count(*) filter (where cached_input_tokens > 0))::text as hits,
  (count(*) filter (where cached_input_tokens = 0 and input_tokens > 0))::text as misses,
  coalesce(sum(latency_ms) filter (where output_tokens > 0), 0)::text as generating`;

/** Days or weeks as reports read them: the sums, plus the quarter hours that are not summed yet. */
const summed = (table: string, unit: 'day' | 'week'): string => `(
  select bucket_start, user_id, api_key_id, model, endpoint, ${measures.map((name) => `sum(${name})::bigint as ${name}`).join(', ')}
  from (
    select bucket_start, user_id, api_key_id, model, endpoint, ${measures.join(', ')} from ${table}
    union all
    select date_trunc('${unit}', bucket_start, 'UTC'), user_id, api_key_id, model, endpoint, ${measures.join(', ')}
    from rollups where not in_day
  ) as parts group by bucket_start, user_id, api_key_id, model, endpoint
) as summed`;

/** Compares every row of a tier with its events, and expects no row without events. */
async function expectEqualRollUps(tier: string, bucket: string): Promise<void> {
  const rolled = await database.query(
    `select bucket_start, user_id, api_key_id, model, endpoint, requests::text, successful_requests::text as successful,
      input_tokens::text as input, cached_input_tokens::text as cached, output_tokens::text as output, images::text, audio_ms::text
      as audio, characters::text, duration_ms::text as duration, cost_nano_usd::text as cost, cache_hits::text as hits,
      cache_misses::text as misses, generating_ms::text as generating
    from ${tier} order by bucket_start, user_id, api_key_id, model, endpoint`,
  );
  const events = await database.query(
    // The time in the id, in a form that Postgres 16 can read too.
    `select ${bucket} as bucket_start, user_id, key_id as api_key_id, model collate "C" as model, endpoint collate "C" as endpoint, ${sums}
    from (select *, to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0) as at,
      coalesce(api_key_id, '00000000-0000-0000-0000-000000000000') as key_id
      from events) as events
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5`,
  );
  expect(rolled.rows, tier).toEqual(events.rows);
}

/** Compares each endpoint's sums with those of the events. */
async function expectEqualReports(): Promise<void> {
  const owner = asPerson({ tenantId, userId: ids(2, 0), role: Role.OWNER });
  const scope = UsageScope.TENANT;
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
  const range = { startDate: day(12), endDate: day(-1), timezone: 'Asia/Kathmandu' };
  const { rows } = await database.query<{
    user_id: string;
    key_id: string | null;
    requests: string;
    cost: string;
    output: string;
  }>(
    `select user_id, api_key_id as key_id, count(*)::text as requests, sum(cost_nano_usd)::text as cost,
      sum(output_tokens)::text as output from events group by 1, 2`,
  );
  const expected = (of: typeof rows) => ({
    requests: of.reduce((sum, { requests }) => sum + BigInt(requests), 0n),
    outputTokens: of.reduce((sum, { output }) => sum + BigInt(output), 0n),
    costNanoUsd: of.reduce((sum, { cost }) => sum + BigInt(cost), 0n),
  });
  const all = expected(rows);
  const total = (parts: readonly { measures?: Measures }[]) =>
    parts.reduce(
      (sum, { measures }) => ({
        requests: sum.requests + measures!.requests,
        outputTokens: sum.outputTokens + measures!.outputTokens,
        costNanoUsd: sum.costNanoUsd + measures!.costNanoUsd,
      }),
      { requests: 0n, outputTokens: 0n, costNanoUsd: 0n },
    );

  const summary = await usage.client.getSummary({ scope, range }, owner);
  expect(summary.totals).toMatchObject(all);
  for (const split of [summary.byModel, summary.byEndpoint, summary.byApiKey]) expect(total(split)).toEqual(all);
  for (const granularity of [Granularity.DAILY, Granularity.WEEKLY, Granularity.MONTHLY]) {
    const report = await usage.client.getReport({ scope, range, granularity, groupBy: GroupBy.API_KEY }, owner);
    expect(report.totals).toMatchObject(all);
    expect(total(report.buckets)).toEqual(all);
  }
  const breakdown = await usage.client.getTenantBreakdown({ range }, owner);
  expect(total(breakdown.users)).toEqual(all);
  const history = await usage.client.listHistory({ scope, range, limit: 1 }, owner);
  expect(history.pageInfo?.total).toBe(all.requests);
  let exported = 0n;
  for await (const { events } of usage.client.exportEvents({ scope, range }, owner)) exported += BigInt(events.length);
  expect(exported).toBe(all.requests);

  for (const user of [0, 1, 2]) {
    const mine = asPerson({ tenantId, userId: ids(2, user) });
    const own = await usage.client.getSummary({ range }, mine);
    expect(own.totals).toMatchObject(expected(rows.filter(({ user_id }) => user_id === ids(2, user))));
    for (const keyId of [ids(3, user * 2), ids(3, user * 2 + 1)]) {
      const { analytics } = await usage.client.getKeyAnalytics({ keyId, range }, mine);
      const { costNanoUsd: _cost, ...volume } = expected(rows.filter(({ key_id }) => key_id === keyId));
      expect(analytics?.totals).toMatchObject(volume);
    }
  }
}
