/*
 * What Usage does with a year of events: `npm run bench:usage -- [events] [organizations] [folder]`, by default 10,000,000 and 1,000. The
 * largest organization has a twentieth of all. The year is loaded with SQL, indexes last, or taken from the folder, which keeps it; then
 * reports are timed alone, and again next to shippers that record 10,000 new events per second. The last part shows the query plans of the
 * reports.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import pg from 'pg';
import { Registry } from 'prom-client';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { Granularity, GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createLogger } from '#shared/logger.ts';
import { CallerKind, CallerSchema, callerContext, Role, serviceCaller } from '#shared/rpc/caller.ts';
import { noMeasures } from '../../services/models/domain/price.ts';
import type { MeteredEvent } from '../../services/models/metering/metered-event.ts';
import { migrations } from '../../services/usage/db/migrations/index.ts';
import { createPartitions } from '../../services/usage/db/partitions.ts';
import { usageService } from '../../services/usage/index.ts';
import { createUsageMetrics } from '../../services/usage/metrics.ts';
import { localClient } from '../support/local-client.ts';
import { measureDrain, measureLags } from './usage-lag.ts';
import { loadYear } from './usage-year.ts';

const eventCount = Number(process.argv[2] ?? 10_000_000);
const tenantCount = Number(process.argv[3] ?? 1_000);
const keptFolder = process.argv[4];
const queriesPerKind = 60;
const roundsOfReports = 5;
const dayMs = 86_400_000;
const eventsPerBatch = 1_000;
const shippers = 2;
const eventsPerSecondBeside = 10_000;
const backlogCalls = 300_000;

const print = (line: string) => process.stdout.write(`${line}\n`);
const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)]!;
const uuid = (kind: number, number: number) => `0197f2a4-000${kind}-7000-8000-${number.toString(16).padStart(12, '0')}`;
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

// As in usage-year.ts.
const models = ['small-chat', 'large-chat', 'embedder', 'code'];
const endpoints = ['/v1/chat/completions', '/v1/embeddings'];
const usersPerTenant = 4;

/** Made beforehand, so that making them costs the measured process next to nothing. Most of the 64,000 possible kinds occur. */
const patterns = Array.from({ length: 100_000 }, newPattern);

function newPattern(): UsageEvent {
  const tenant = Math.random() < 0.05 ? 0 : Math.floor(Math.random() * tenantCount);
  const user = tenant * usersPerTenant + Math.floor(Math.random() * usersPerTenant);
  const outputTokens = BigInt(Math.floor(Math.random() * 800));
  return create(UsageEventSchema, {
    tenantId: uuid(1, tenant),
    userId: uuid(2, user),
    apiKeyId: uuid(3, user * 2 + Math.floor(Math.random() * 2)),
    model: pick(models),
    endpoint: pick(endpoints),
    operation: Operation.CHAT_COMPLETIONS,
    success: Math.random() < 0.97,
    status: 200,
    usage: { inputTokens: 700n, cachedInputTokens: 100n, outputTokens, costNanoUsd: 12_000n + outputTokens * 600n },
    latencyMs: Math.floor(200 + 3_000 * Math.random() ** 3),
    ttftMs: 90,
    requestId: 'req_0197f2a400007000800000000000',
    streamed: true,
  });
}

/** A call as the hot path meters it. */
const meteredPattern = (): MeteredEvent => ({
  id: '',
  tenantId: uuid(1, 1),
  userId: uuid(2, 1),
  apiKeyId: uuid(3, 1),
  sessionId: '',
  model: models[0]!,
  deploymentId: '',
  endpoint: endpoints[0]!,
  operation: Operation.CHAT_COMPLETIONS,
  success: true,
  status: 200,
  errorCode: '',
  ...noMeasures,
  inputTokens: 700,
  costNanoUsd: 12_000n,
  priceVersionId: '',
  latencyMs: 300,
  ttftMs: 90,
  streamed: true,
  requestId: 'req_0197f2a400007000800000000000',
  jobId: '',
  leaseIds: [],
});

type Usage = Client<typeof UsageService>;
const shipper = { contextValues: callerContext(serviceCaller('edge')), timeoutMs: 60_000 };

/**
 * Records batches from several shippers, each with one call at a time, at no more than `perSecond` events in total, until `stop` says so;
 * returns how many events were stored.
 */
async function ingest(usage: Usage, perSecond: number, stop: () => boolean): Promise<number> {
  const startedMs = performance.now();
  let sent = 0;
  let stored = 0;
  const ship = async (_: unknown, shipperNumber: number): Promise<void> => {
    // Each shipper has its own patterns, and gives them new ids only when its last call has been answered.
    const own = patterns.filter((_, index) => index % shippers === shipperNumber);
    let next = 0;
    while (!stop()) {
      const dueMs = startedMs + (sent / perSecond) * 1_000;
      sent += eventsPerBatch;
      if (dueMs > performance.now()) await delay(dueMs - performance.now());
      const events = own.slice(next, next + eventsPerBatch);
      for (const event of events) event.id = uuidv7();
      next = (next + eventsPerBatch) % own.length;
      const { accepted } = await usage.record({ events }, shipper);
      stored += accepted;
    }
  };
  await Promise.all(Array.from({ length: shippers }, ship));
  return stored;
}

/** CPU time of this process and of Postgres with its children, in milliseconds (Linux; ticks are hundredths of a second). */
function cpuMs(postgresPid: number): { node: number; postgres: number } {
  const { user, system } = process.cpuUsage();
  let ticks = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ').map(Number);
      const own = fields[11]! + fields[12]!;
      if (Number(pid) === postgresPid) ticks += own + fields[13]! + fields[14]!;
      else if (fields[1] === postgresPid) ticks += own;
    } catch {
      // The process has ended meanwhile.
    }
  }
  return { node: (user + system) / 1_000, postgres: ticks * 10 };
}

/** Runs `work` while counting, and prints the rate and the CPU time per event. */
async function rated(name: string, postgresPid: number, work: () => Promise<number>): Promise<void> {
  const before = cpuMs(postgresPid);
  const startedMs = performance.now();
  const events = await work();
  const seconds = (performance.now() - startedMs) / 1_000;
  const after = cpuMs(postgresPid);
  const each = (ms: number) => ((ms * 1_000) / events).toFixed(0);
  print(
    `  ${name}: ${Math.round(events / seconds)} events a second; CPU per event ${each(after.node - before.node)} µs here, ` +
      `${each(after.postgres - before.postgres)} µs in Postgres`,
  );
}

const percentile = (sorted: readonly number[], part: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;

/**
 * Times reports in several rounds of all kinds, so that a temporary disturbance affects each kind in one round only: medians of the rounds,
 * with the range of the p95. CPU time shows what a busy machine hides, as long as nothing else runs here.
 */
async function timed(kinds: readonly [string, () => Promise<unknown>][], postgresPid: number): Promise<void> {
  const rounds = new Map(
    kinds.map(([name]) => [name, [] as { p50: number; p95: number; worst: number; cpu: number }[]]),
  );
  for (let round = 0; round < roundsOfReports; round += 1) {
    for (const [name, call] of kinds) {
      const times: number[] = [];
      const before = cpuMs(postgresPid);
      for (let index = 0; index < queriesPerKind; index += 1) {
        const startedMs = performance.now();
        await call();
        times.push(performance.now() - startedMs);
      }
      const after = cpuMs(postgresPid);
      times.sort((a, b) => a - b);
      const cpu = (after.node - before.node + after.postgres - before.postgres) / queriesPerKind;
      rounds.get(name)!.push({ p50: percentile(times, 0.5), p95: percentile(times, 0.95), worst: times.at(-1)!, cpu });
    }
  }
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  for (const [name, figures] of rounds) {
    const of = (figure: 'p50' | 'p95' | 'worst' | 'cpu') => figures.map((one) => one[figure]).toSorted((a, b) => a - b);
    const median = (figure: 'p50' | 'p95' | 'cpu') => ms(percentile(of(figure), 0.5));
    const p95 = of('p95');
    print(
      `  ${name.padEnd(54)} p50 ${median('p50')}, p95 ${median('p95')} (${p95[0]!.toFixed(1)} to ${ms(p95.at(-1)!)}), ` +
        `worst ${ms(of('worst').at(-1)!)}; CPU ${median('cpu')}`,
    );
  }
}

/** Reports as people request them, for a random organization or the largest. */
function reports(usage: Usage, nowMs: number): [string, () => Promise<unknown>][] {
  const range = (days: number, timezone = 'UTC') => ({
    startDate: dayOf(nowMs - (days - 1) * dayMs),
    endDate: dayOf(nowMs),
    timezone,
  });
  const someTenant = () => Math.floor(Math.random() * tenantCount);
  const owner = (tenant: number) => ({
    contextValues: callerContext(
      create(CallerSchema, {
        kind: CallerKind.SESSION,
        tenantId: uuid(1, tenant),
        userId: uuid(2, tenant * usersPerTenant),
        role: Role.OWNER,
      }),
    ),
  });
  const scope = UsageScope.TENANT;
  const analytics = (tenant: number, request: object) =>
    usage.getKeyAnalytics({ keyId: uuid(3, tenant * usersPerTenant * 2), ...request }, owner(tenant));
  const kinds = (name: string, tenant: () => number): [string, () => Promise<unknown>][] => [
    [
      `${name}: analytics, 7 days hourly`,
      () => analytics(tenant(), { range: range(7), granularity: Granularity.HOURLY }),
    ],
    [`${name}: analytics, 31 days daily in Berlin`, () => analytics(tenant(), { range: range(31, 'Europe/Berlin') })],
    [
      `${name}: analytics, 365 days weekly in Berlin`,
      () => analytics(tenant(), { range: range(365, 'Europe/Berlin'), granularity: Granularity.WEEKLY }),
    ],
    [`${name}: summary, 30 days`, () => usage.getSummary({ scope, range: range(30) }, owner(tenant()))],
    [
      `${name}: summary, 365 days in Berlin`,
      () => usage.getSummary({ scope, range: range(365, 'Europe/Berlin') }, owner(tenant())),
    ],
    [
      `${name}: report, 90 days daily by model`,
      () => usage.getReport({ scope, range: range(90), groupBy: GroupBy.MODEL }, owner(tenant())),
    ],
    [
      `${name}: report, 90 days daily in Berlin`,
      () => usage.getReport({ scope, range: range(90, 'Europe/Berlin') }, owner(tenant())),
    ],
    [
      `${name}: report, 365 days weekly in Berlin`,
      () => {
        const asked = { scope, range: range(365, 'Europe/Berlin'), granularity: Granularity.WEEKLY };
        return usage.getReport(asked, owner(tenant()));
      },
    ],
    [`${name}: history, 50 newest`, () => usage.listHistory({ scope }, owner(tenant()))],
  ];
  return [...kinds('any organization', someTenant), ...kinds('the largest', () => 0)];
}

const logger = createLogger({ level: 'error', name: 'bench' });
const dataDir = keptFolder ?? mkdtempSync(join(tmpdir(), 'mg-bench-usage-'));
const postgres = await startEmbeddedPostgres({ dataDir, logger });
try {
  await migrateAll(postgres.url, [{ service: 'usage', migrations }], logger);
  const database = await openServiceDatabase({ service: 'usage', connection: postgres.url, entities: [], logger });
  const statements = new Map<string, unknown[]>();
  const watched: typeof database = {
    ...database,
    query: (statement) => {
      statements.set(statement.text.replaceAll(/\s+/g, ' '), statement.values ?? []);
      return database.query(statement);
    },
  };
  const implementation = usageService({
    database: watched,
    partitions: createPartitions(database),
    auth: { getUsers: async () => ({ users: [] }) as never },
    keys: { describeKeys: async () => ({ keys: [] }) as never },
    metrics: createUsageMetrics(new Registry()),
    clock: systemClock,
    machineClock: systemClock,
  });
  const usage = localClient(UsageService, implementation, logger);
  const owner = new pg.Client({ connectionString: postgres.url });
  await owner.connect();
  await owner.query('set search_path = usage');

  const nowMs = Date.now();
  const startedMs = performance.now();
  const { rows: kept } = await owner.query('select exists (select from rollups) as year');
  if (!kept[0].year) await loadYear(owner, { endMs: nowMs - 60_000, eventCount, tenantCount });
  const { rows: sizes } = await owner.query(
    `select (select count(*) from rollups)::int as rollups, pg_size_pretty(pg_total_relation_size('rollups')) as rollups_size,
      (select count(*) from daily_rollups)::int as days, pg_size_pretty(pg_total_relation_size('daily_rollups')) as days_size,
      (select count(*) from weekly_rollups)::int as weeks, pg_size_pretty(pg_total_relation_size('weekly_rollups')) as weeks_size,
      (select pg_size_pretty(sum(pg_total_relation_size(inhrelid))) from pg_inherits where inhparent = 'events'::regclass) as events`,
  );
  const { rollups, rollups_size, days, days_size, weeks, weeks_size, events } = sizes[0];
  print(
    `${eventCount} events of ${tenantCount} organizations over a year, ready after ${Math.round((performance.now() - startedMs) / 1_000)} s: ` +
      `events ${events}, ${rollups} roll-ups of quarter hours (${rollups_size}), ${days} of days (${days_size}), ${weeks} of weeks (${weeks_size})`,
  );

  print('\nIngestion alone:');
  const ingestFor = (seconds: number): Promise<number> => {
    const untilMs = performance.now() + seconds * 1_000;
    return ingest(usage, Number.POSITIVE_INFINITY, () => performance.now() > untilMs);
  };
  // The first calls of a quarter hour begin its roll-up rows, the others add to them.
  await rated('recorded first', postgres.pid(), () => ingestFor(20));
  await rated('recorded then', postgres.pid(), () => ingestFor(20));

  print('\nFrom the journal to the stored row, at 1,000 calls a second:');
  await rated('shipped', postgres.pid(), async () => {
    const pattern = meteredPattern();
    const lags = await measureLags(usage, {
      pattern,
      perSecond: 1_000,
      seconds: 10,
      directory: join(dataDir, 'journal'),
      logger,
    });
    const [p50, p99] = [percentile(lags, 0.5), percentile(lags, 0.99)];
    print(`  lag p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, worst ${lags.at(-1)!.toFixed(0)} ms`);
    return lags.length;
  });

  print(`\nBehind an outage of Usage in which ${backlogCalls} calls were metered:`);
  await rated('drained', postgres.pid(), async () => {
    const directory = join(dataDir, 'backlog');
    const perSecond = await measureDrain(usage, { pattern: meteredPattern(), calls: backlogCalls, directory, logger });
    print(
      `  ${perSecond.toFixed(0)} a second: an hour of ${(perSecond / 12).toFixed(0)} calls a second in five minutes`,
    );
    return backlogCalls;
  });

  print('\nReports alone:');
  await timed(reports(usage, nowMs), postgres.pid());

  print(`\nReports beside ${eventsPerSecondBeside} new events a second:`);
  statements.clear();
  await rated('recorded beside them', postgres.pid(), async () => {
    let done = false;
    const beside = ingest(usage, eventsPerSecondBeside, () => done);
    await timed(reports(usage, nowMs), postgres.pid());
    done = true;
    return beside;
  });

  print('\nPlans:');
  for (const [text, values] of statements) {
    if (!/rollups|events/.test(text)) continue;
    const { rows } = await owner.query(`explain (costs off) ${text}`, values);
    print(`\n${text.slice(0, 160)}…`);
    for (const row of rows) print(`  ${row['QUERY PLAN']}`);
  }
  await owner.end();
  await database.close();
} finally {
  await postgres.stop();
  if (keptFolder === undefined) rmSync(dataDir, { recursive: true, force: true });
}
