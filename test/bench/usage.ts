/*
 * What Usage does with a year of events: `node test/bench/usage.ts [events] [organizations]`, by default 1,000,000 and 1,000.
 * The largest organization has a twentieth of all. Events go in by Record over the local transport, in order of time, as
 * shippers send them; then reports are timed while more events come in. The last part are the plans of their queries.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import pg from 'pg';
import { Registry } from 'prom-client';
import { v7 } from 'uuid';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { Granularity, GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { createLogger } from '#shared/logger.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import { CallerKind, CallerSchema, callerContext, Role, serviceCaller } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createLocalTransport } from '#shared/rpc/local-transport.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { createMessageValidation } from '#shared/rpc/validation.ts';
import { migrations } from '../../services/usage/db/migrations/index.ts';
import { createPartitions } from '../../services/usage/db/partitions.ts';
import { usageService } from '../../services/usage/index.ts';
import { createUsageMetrics } from '../../services/usage/metrics.ts';

const eventCount = Number(process.argv[2] ?? 1_000_000);
const tenantCount = Number(process.argv[3] ?? 1_000);
const queriesPerKind = 200;
const dayMs = 86_400_000;
const eventsPerBatch = 1_000;
const shippers = 2;

const print = (line: string) => process.stdout.write(`${line}\n`);
const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)]!;
const uuid = (kind: number, number: number) => `0197f2a4-000${kind}-7000-8000-${number.toString(16).padStart(12, '0')}`;
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

const models = ['small-chat', 'large-chat', 'embedder', 'code'];
const endpoints = ['/v1/chat/completions', '/v1/embeddings'];
const usersPerTenant = 4;

function eventAt(ms: number): UsageEvent {
  const tenant = Math.random() < 0.05 ? 0 : Math.floor(Math.random() * tenantCount);
  const user = tenant * usersPerTenant + Math.floor(Math.random() * usersPerTenant);
  const outputTokens = BigInt(Math.floor(Math.random() * 800));
  return create(UsageEventSchema, {
    id: v7({ msecs: ms }),
    tenantId: uuid(1, tenant),
    userId: uuid(2, user),
    // Two keys each.
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

type Usage = Client<typeof UsageService>;
const shipper = { contextValues: callerContext(serviceCaller('edge')), timeoutMs: 60_000 };

/** Batches of events at growing moments, shipped by several shippers until the moments end or `stop` says so. */
async function ingest(usage: Usage, moments: Iterator<number>, stop: () => boolean = () => false): Promise<number> {
  let stored = 0;
  const ship = async (): Promise<void> => {
    while (!stop()) {
      const events: UsageEvent[] = [];
      for (let next = moments.next(); next.done !== true; next = moments.next()) {
        events.push(eventAt(next.value));
        if (events.length === eventsPerBatch) break;
      }
      if (events.length === 0) return;
      const { accepted } = await usage.record({ events }, shipper);
      stored += accepted;
    }
  };
  await Promise.all(Array.from({ length: shippers }, ship));
  return stored;
}

function* evenly(startMs: number, endMs: number, count: number): Generator<number, undefined> {
  for (let index = 0; index < count; index += 1) yield startMs + Math.floor(((endMs - startMs) * index) / count);
}

function* fromNow(): Generator<number, undefined> {
  for (;;) yield Date.now();
}

const percentile = (sorted: readonly number[], part: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;

async function timed(name: string, call: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let index = 0; index < queriesPerKind; index += 1) {
    const startedMs = performance.now();
    await call();
    times.push(performance.now() - startedMs);
  }
  times.sort((a, b) => a - b);
  const [p50, p95, worst] = [percentile(times, 0.5), percentile(times, 0.95), times.at(-1)!];
  print(`  ${name.padEnd(52)} p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms, worst ${worst.toFixed(1)} ms`);
}

/** Reports as people ask for them, of a random organization or of the largest. */
function reports(usage: Usage, nowMs: number): [string, () => Promise<unknown>][] {
  const range = (days: number) => ({ startDate: dayOf(nowMs - (days - 1) * dayMs), endDate: dayOf(nowMs) });
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
  const key = (tenant: number) => uuid(3, tenant * usersPerTenant * 2);
  const scope = UsageScope.TENANT;
  const kinds = (name: string, tenant: () => number): [string, () => Promise<unknown>][] => [
    [
      `${name}: analytics, 31 days daily`,
      () => {
        const at = tenant();
        return usage.getKeyAnalytics({ keyId: key(at), range: range(31) }, owner(at));
      },
    ],
    [
      `${name}: analytics, 365 days weekly`,
      () => {
        const at = tenant();
        const granularity = Granularity.WEEKLY;
        return usage.getKeyAnalytics({ keyId: key(at), range: range(365), granularity }, owner(at));
      },
    ],
    [`${name}: summary, 30 days`, () => usage.getSummary({ scope, range: range(30) }, owner(tenant()))],
    [`${name}: summary, 365 days`, () => usage.getSummary({ scope, range: range(365) }, owner(tenant()))],
    [
      `${name}: report, 90 days daily by model`,
      () => usage.getReport({ scope, range: range(90), groupBy: GroupBy.MODEL }, owner(tenant())),
    ],
    [
      `${name}: report, 365 days weekly`,
      () => usage.getReport({ scope, range: range(365), granularity: Granularity.WEEKLY }, owner(tenant())),
    ],
    [`${name}: history, 50 newest`, () => usage.listHistory({ scope }, owner(tenant()))],
  ];
  return [...kinds('any organization', someTenant), ...kinds('the largest', () => 0)];
}

const logger = createLogger({ level: 'error', name: 'bench' });
const dataDir = mkdtempSync(join(tmpdir(), 'mg-bench-usage-'));
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
    metrics: createUsageMetrics(new Registry()),
    clock: systemClock,
  });
  const report = createCallReport({ logger, clock: systemClock });
  const transport = createLocalTransport([rpcService(UsageService, implementation)], {
    report,
    validate: createMessageValidation(),
  });
  const usage = createRpcClient(UsageService, transport);

  const nowMs = Date.now();
  const startedMs = performance.now();
  const stored = await ingest(usage, evenly(nowMs - 365 * dayMs, nowMs - 60_000, eventCount));
  const seconds = (performance.now() - startedMs) / 1_000;
  print(`${stored} events of ${tenantCount} organizations over a year: ${Math.round(stored / seconds)} a second`);

  const owner = new pg.Client({ connectionString: postgres.url });
  await owner.connect();
  await owner.query('set search_path = usage');
  await owner.query('vacuum analyze');
  const { rows: sizes } = await owner.query(
    `select (select count(*) from rollups)::int as rollups, pg_size_pretty(pg_total_relation_size('rollups')) as size,
      (select pg_size_pretty(sum(pg_total_relation_size(inhrelid))) from pg_inherits where inhparent = 'events'::regclass) as events`,
  );
  print(`roll-up rows ${sizes[0].rollups} (${sizes[0].size}), events ${sizes[0].events}`);

  print('\nReports alone:');
  for (const [name, call] of reports(usage, nowMs)) await timed(name, call);

  print('\nReports beside ingestion at full speed:');
  statements.clear();
  let done = false;
  const besideMs = performance.now();
  const beside = ingest(usage, fromNow(), () => done);
  for (const [name, call] of reports(usage, nowMs)) await timed(name, call);
  done = true;
  const besideCount = await beside;
  print(
    `  beside them ${Math.round(besideCount / ((performance.now() - besideMs) / 1_000))} events a second were stored`,
  );

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
  rmSync(dataDir, { recursive: true, force: true });
}
