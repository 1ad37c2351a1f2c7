import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ExportEventsRequestSchema } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { Role } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { keyId, tenantId, testEvent, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';
import { exportEvents } from '../rpc/export-events.ts';
import { bucketedSums } from './bucketed-sums.ts';
import { pageOfCalls } from './calls.ts';
import { leftBehind } from './charge-batches.ts';
import { groupedSums } from './grouped-sums.ts';
import { listEvents, pageOfEvents } from './history.ts';
import { latenciesOfKey, latestEventsOfKey, onOneSnapshot, volumesOfKey } from './key-analytics.ts';

type Statement = { text: string; values?: unknown[] };

let usage: TestUsage;
let client: pg.Client;
beforeAll(async () => {
  usage = await startTestUsage();
  for (let batch = 0; batch < 10; batch += 1) {
    const events = Array.from({ length: 1_000 }, (_, index) =>
      testEvent(testNowMs - (batch * 1_000 + index) * 240_000, {
        tenantId: testId(index % 20),
        apiKeyId: index % 20 === 1 ? keyId : testId(100 + (index % 40)),
        requestId: `req_${batch * 1_000 + index}`,
      }),
    );
    await usage.client.record({ events }, asService());
    // The days of the last batches are left as they arrived.
    if (batch === 6) await usage.gatherDays();
  }
  client = new pg.Client({ connectionString: usage.databaseUrl });
  await client.connect();
  await client.query('set search_path = usage');
  await client.query('vacuum analyze');
});
afterAll(async () => {
  await client.end();
  await usage[Symbol.asyncDispose]();
});

/** With one connection. */
const openDatabase = () =>
  openServiceDatabase({
    service: 'usage',
    connection: usage.databaseUrl,
    entities: [],
    poolMax: 1,
    logger: logCollector().logger,
  });

/** The plan of the statement that a query sends. */
async function planOf(send: (database: { query: never }) => Promise<unknown>): Promise<string> {
  let statement: Statement | undefined;
  const catching = async (sent: Statement) => {
    statement = sent;
    throw new Error('caught');
  };
  await send({ query: catching as never }).catch(() => {});
  const { rows } = await client.query(`explain (costs off) ${statement!.text}`, statement!.values);
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

const range = { startMs: testNowMs - 20 * 86_400_000, endMs: testNowMs };
const startsMs = Array.from({ length: 20 }, (_, day) => range.startMs + day * 86_400_000);
const key = (id: string, tenant = tenantId) => ({ tenantId: tenant, userId, keyId: id });

test('sums and series come from the roll-ups by an index, never from events', async () => {
  const subject = { tenantId, userId: null };
  const plans = [
    await planOf((database) =>
      groupedSums(database, { subject, range, dimensions: ['model', 'endpoint', 'api_key_id'] }),
    ),
    await planOf((database) => bucketedSums(database, { subject, startsMs, endMs: range.endMs, dimension: 'model' })),
    await planOf((database) => bucketedSums(database, { subject: { tenantId, userId }, startsMs, endMs: range.endMs })),
    await planOf((database) =>
      volumesOfKey(database, { subject: key(keyId), fromMs: range.startMs, startsMs, endMs: range.endMs }),
    ),
  ];
  for (const plan of plans) {
    // Each time range is looked up separately: in all three tiers, and among what days and weeks do not count yet.
    expect(plan).toMatch(/Index .* weekly_rollups/);
    expect(plan).toMatch(/Index .* daily_rollups/);
    expect(plan).toMatch(/Index .* rollups/);
    expect(plan).toMatch(/Index .* rollups_outside_days/);
    expect(plan.match(/Index Cond: .*bucket_start >= /g)).toHaveLength(4);
    expect(plan).not.toMatch(/Seq Scan|events/);
  }
});

test('latencies and recent activity of a key read no other key’s events', async () => {
  const subject = key(keyId);
  const plans = [
    await planOf((database) => latenciesOfKey(database, { subject, range, slices: [range], model: '' })),
    await planOf((database) => latestEventsOfKey(database, { subject, range })),
  ];
  for (const plan of plans) {
    expect(plan).not.toContain('Seq Scan');
    expect(plan).toMatch(/Index .* events_\d+_\d+_tenant_id_api_key_id/);
  }
  expect(plans[0]).toContain('Index Only Scan');
});

test('a few failed calls are found without reading those that succeeded', async () => {
  const query = { subject: { tenantId, userId: null }, filter: undefined, ...range, ranges: [range], success: false };
  const plan = await planOf((database) => listEvents(database, { ...query, limit: 25, offset: 0 }));
  expect(plan).toMatch(/Index Scan/);
  expect(plan).not.toMatch(/Seq Scan|success/);
});

test('a call is found by its request id without reading any other', async () => {
  const query = { subject: { tenantId, userId: null }, filter: undefined, success: undefined, requestId: 'req_1' };
  const plan = await planOf((database) =>
    listEvents(database, { ...query, ...range, ranges: [range], limit: 25, offset: 0 }),
  );
  expect(plan).toMatch(/Index .* events_\d+_\d+_request_id/);
  expect(plan).not.toContain('Seq Scan');
});

test('what an outage kept from being charged is read back without reading any other event', async () => {
  const plan = await planOf((database) => leftBehind(database, { olderThanMs: 0, eventsMax: 1_000 }));
  // The other months have no events.
  for (const month of ['06', '07']) expect(plan).toContain(`Index Scan using events_2026_${month}_pkey`);
});

type ListPage = (database: Parameters<typeof pageOfEvents>[0]) => ReturnType<typeof pageOfEvents>;

/** A page of calls, and how many events it reads. */
async function readingPage(list: ListPage) {
  const database = await openDatabase();
  let read = 0;
  const connect = async () => {
    const connection = await database.pool.connect();
    const query = async (sent: string | Statement) => {
      if (typeof sent !== 'string') {
        const { rows } = await connection.query(`explain (analyze, format json) ${sent.text}`, sent.values);
        read += rowsRead(rows[0]!['QUERY PLAN'][0].Plan, 'events_2');
      }
      return connection.query(sent as Statement);
    };
    return { query, release: () => connection.release() };
  };
  const page = await list({ pool: { connect } as never });
  await database.close();
  return { ids: page.rows.map(({ id }) => id), total: page.total, read };
}

/** A page of the history, and how many events it reads. */
function readPage(query: Partial<Parameters<typeof pageOfEvents>[1]>) {
  const all = { subject: { tenantId, userId: null }, filter: {}, startMs: null, endMs: null, success: undefined };
  return readingPage((database) => pageOfEvents(database, { ...all, limit: 50, offset: 0, ...query }));
}

const newestFirst = (events: readonly { id: string }[]) =>
  events
    .map(({ id }) => id)
    .sort()
    .reverse();

test('a model’s events are read only where it was used, and none of a model that was not', async () => {
  const [before, newest] = [testNowMs - 12 * 86_400_000, testNowMs - 10 * 86_400_000];
  const events = [before, newest, newest].map((ms) => testEvent(ms, { model: 'rare' }));
  await usage.client.record({ events }, asService());
  expect(await readPage({ filter: { model: 'unused' } })).toEqual({ ids: [], total: 0, read: 0 });
  const { ids, total, read } = await readPage({ filter: { model: 'rare' } });
  expect([ids, total]).toEqual([newestFirst(events), 3]);
  // Between the two days of use and a week after: the organization has 500 in all, 18 a day.
  expect(read).toBeLessThan(10 * 18);
});

test('a model’s few events are found without reading those of others in between', async () => {
  const events = Array.from({ length: 10 }, (_, place) =>
    testEvent(testNowMs - (2 * place + 1) * 86_400_000, { model: 'sparse', success: place % 3 !== 0 }),
  );
  await usage.client.record({ events }, asService());
  const ofPage = (page: Partial<Parameters<typeof pageOfEvents>[1]>) =>
    readPage({ filter: { model: 'sparse' }, limit: 4, ...page });
  const ids = newestFirst(events);
  for (const offset of [0, 5, 9]) {
    const page = await ofPage({ offset });
    expect([page.ids, page.total]).toEqual([ids.slice(offset, offset + 4), 10]);
    // The organization has 18 a day.
    expect(page.read).toBeLessThan(18);
  }
  const failed = newestFirst(events.filter(({ success }) => !success));
  expect(await ofPage({ success: false, offset: 1 })).toMatchObject({ ids: failed.slice(1), total: 4 });
});

test('a page of a busy model reads no more where a quarter hour has just begun', async () => {
  // At noon a quarter hour begins.
  const events = Array.from({ length: 300 }, (_, place) =>
    testEvent(testNowMs + 2_000 - place * 1_000, { model: 'busy', success: place % 2 === 0 }),
  );
  await usage.client.record({ events }, asService());
  const page = await readPage({ filter: { model: 'busy' }, limit: 20 });
  expect([page.ids, page.total]).toEqual([newestFirst(events).slice(0, 20), 300]);
  expect(page.read).toBeLessThan(60);
});

test('a page far back reads no more than the events of a quarter hour besides its own', async () => {
  const subject = { tenantId: testId(50), userId: null };
  const events = Array.from({ length: 3_000 }, (_, place) =>
    testEvent(testNowMs - Math.floor(place / 10) * 2_700_000 - (place % 7) * 1_000, {
      tenantId: subject.tenantId,
      model: place % 3 === 0 ? 'often' : 'seldom',
      success: place % 5 !== 0,
    }),
  );
  for (let from = 0; from < events.length; from += 1_000) {
    await usage.client.record({ events: events.slice(from, from + 1_000) }, asService());
    // The last ones are in the sums of no day.
    if (from === 1_000) await usage.gatherDays();
  }
  await client.query('vacuum analyze');
  const ofFilter = (model: string, success?: boolean) =>
    newestFirst(
      events.filter((event) => (model === '' || event.model === model) && event.success === (success ?? event.success)),
    );
  for (const [model, success] of [
    ['', undefined],
    ['often', undefined],
    ['seldom', true],
    ['', false],
  ] as const) {
    const expected = ofFilter(model, success);
    for (const offset of [501, 550, 577]) {
      const page = await readPage({ subject, filter: { model }, success, offset });
      expect(page, `${model} ${success} ${offset}`).toMatchObject({
        ids: expected.slice(offset, offset + 50),
        total: expected.length,
      });
    }
  }
  // Ten events a quarter hour: 50 of `often` are in fifteen of them.
  for (const offset of [600, 937])
    expect((await readPage({ subject, filter: { model: 'often' }, offset })).read).toBeLessThan(200);
  // A range in a time zone, of whose first and last days some hours count.
  const [startMs, endMs] = [testNowMs - 6 * 86_400_000 - 19_800_000, testNowMs - 86_400_000 - 19_800_000];
  const within = newestFirst(
    events.filter(({ occurredAt }) => timestampMs(occurredAt!) >= startMs && timestampMs(occurredAt!) < endMs),
  );
  const page = await readPage({ subject, startMs, endMs, offset: 1_234 });
  expect(page).toMatchObject({ ids: within.slice(1_234, 1_284), total: within.length });
});

test('a model’s few failed calls of all organizations are found without reading those of others, and so are those of a deployment', async () => {
  const deploymentId = testId(600);
  // A week without the failed calls of other tests, which would be read, too.
  const endMs = testNowMs - 20 * 86_400_000;
  const ofWeek = { startMs: endMs - 7 * 86_400_000, endMs };
  const events = Array.from({ length: 6 }, (_, place) =>
    testEvent(endMs - (place + 1) * 80_000_000, {
      tenantId: testId(place),
      model: place % 2 === 0 ? 'failing' : 'small-chat',
      deploymentId,
      success: false,
    }),
  );
  await usage.client.record({ events }, asService());
  const read = (filter: { model?: string; deploymentId: string }) =>
    readingPage((database) => {
      const query = { filter: { tenantId: '', success: false, ...filter }, range: ofWeek };
      return pageOfCalls(database, { ...query, limit: 2, offset: 1 });
    });
  const failing = newestFirst(events.filter(({ model }) => model === 'failing'));
  expect(await read({ model: 'failing', deploymentId: '' })).toEqual({ ids: failing.slice(1), total: 3, read: 2 });
  // All failed ones of the week are read to be counted as well.
  const ofDeployment = await read({ deploymentId });
  expect(ofDeployment).toMatchObject({ ids: newestFirst(events).slice(1, 3), total: 6 });
  expect(ofDeployment.read).toBeLessThan(20);
});

/** The calls of an export of the whole range, how many rows of a table it reads, and by how many statements. */
async function exported(filter: { model: string }, timezone: string, table: string) {
  const database = await openDatabase();
  let [read, statements] = [0, 0];
  const query = async (sent: Statement) => {
    statements += 1;
    const { rows } = await client.query(`explain (analyze, format json) ${sent.text}`, sent.values);
    read += rowsRead(rows[0]!['QUERY PLAN'][0].Plan, table);
    return database.query(sent as never);
  };
  const keys = { describeKeys: async () => ({ keys: [] }) };
  const reads: ReadTurns = (_context, read) => read();
  const rpc = exportEvents({ database: { query } as never, keys: keys as never, clock: usage.clock, reads });
  const { contextValues: values } = asPerson({ tenantId, userId, role: Role.OWNER });
  const isoDay = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const days = { startDate: isoDay(range.startMs), endDate: isoDay(range.endMs), timezone };
  const request = create(ExportEventsRequestSchema, { range: days, filter });
  const pages = await Array.fromAsync(rpc(request, { values, signal: new AbortController().signal } as never));
  await database.close();
  return { ids: pages.flatMap((page) => page.events!.map(({ id }) => id)), read, statements };
}

test('an export of a rare model reads only the quarter hours of its use, and none without any', async () => {
  const events = [16, 14].map((days) => testEvent(testNowMs - days * 86_400_000, { model: 'exported' }));
  await usage.client.record({ events }, asService());
  expect(await exported({ model: 'unused' }, 'UTC', 'events_2')).toMatchObject({ ids: [], read: 0 });
  const { ids, read } = await exported({ model: 'exported' }, 'UTC', 'events_2');
  expect(ids).toEqual(events.map(({ id }) => id));
  // The organization has 18 a day.
  expect(read).toBeLessThan(18);
});

test('an export of a model that is used now and then reads several of its quarter hours at a time', async () => {
  const dayMs = Math.floor(testNowMs / 86_400_000 - 5) * 86_400_000;
  const events = [
    ...Array.from({ length: 20 }, (_, place) => testEvent(dayMs + place * 1_800_000, { model: 'occasional' })),
    ...Array.from({ length: 150 }, (_, place) => testEvent(dayMs + 16_200_000 + place, { model: 'occasional' })),
  ];
  await usage.client.record({ events }, asService());
  const { ids, read, statements } = await exported({ model: 'occasional' }, 'UTC', 'events_2');
  expect(ids).toEqual(newestFirst(events).reverse());
  expect(read).toBeLessThan(events.length + 20);
  // For its days, for the quarter hours of the one, for those before and after most calls, and two pages of these.
  expect(statements).toBe(6);
});

test.each(['Asia/Tokyo', 'America/New_York'])('an export in %s reads quarter hours at its ends alone', async (zone) => {
  const { read } = await exported({ model: 'unused' }, 'UTC', 'rollups');
  // The organization has 18 a day.
  expect((await exported({ model: 'unused' }, zone, 'rollups')).read).toBeLessThan(read + 2 * 18);
});

type Plan = {
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

/** How many rows of a table, or of its partitions, a plan that was carried out read. */
function rowsRead(plan: Plan, table: string): number {
  const rows = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  const own = plan['Relation Name']?.startsWith(table) ? rows * plan['Actual Loops'] : 0;
  return (plan.Plans ?? []).reduce((sum, one) => sum + rowsRead(one, table), own);
}

test('an unknown and a foreign key take the same path as one with calls: plans never depend on the values', async () => {
  const database = await openDatabase();
  for (const subject of [key(keyId), key(testId(999)), key('not-a-key'), key(keyId, testId(998))]) {
    await onOneSnapshot(database, async (client) => {
      await volumesOfKey(client, { subject, fromMs: range.startMs, startsMs, endMs: range.endMs });
      await latenciesOfKey(client, { subject, range, slices: [range], model: '' });
      await latestEventsOfKey(client, { subject, range });
    });
  }
  // There is one connection, and these are its statements.
  const { rows } = await database.query({
    text: 'select name, generic_plans, custom_plans from pg_prepared_statements order by name',
  });
  const used = { generic_plans: 4n, custom_plans: 0n };
  expect(rows).toEqual([
    { name: 'key-latencies-of-user', ...used },
    { name: 'key-latest-of-user', ...used },
    { name: expect.stringMatching(/^sums-/), ...used },
  ]);
  await database.close();
});

test('reports of one kind are planned once, for any organization and time', async () => {
  const database = await openDatabase();
  for (let report = 0; report < 8; report += 1) {
    const subject = { tenantId: testId(report), userId: null };
    const buckets = { startsMs: startsMs.slice(report), endMs: range.endMs };
    await bucketedSums(database, { subject, ...buckets });
    await bucketedSums(database, { subject, ...buckets, dimension: 'model', filter: { endpoint: '/v1/embeddings' } });
  }
  const { rows } = await database.query({
    text: `select generic_plans > 0 as is_planned, generic_plans + custom_plans as runs from pg_prepared_statements`,
  });
  expect(rows).toEqual(Array(2).fill({ is_planned: true, runs: 8n }));
  await database.close();
});

test('the generic plan, used for every key, reads by the index', async () => {
  await client.query('begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off');
  const subject = key(keyId);
  const plans: string[] = [];
  const explaining = {
    query: async ({ text, values }: Statement) => {
      const { rows } = await client.query(`explain (costs off) ${text}`, values);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return { rows: [] };
    },
  } as never;
  await volumesOfKey(explaining, { subject, fromMs: range.startMs, startsMs, endMs: range.endMs });
  await latenciesOfKey(explaining, { subject, range, slices: [range], model: '' });
  await latestEventsOfKey(explaining, { subject, range });
  await client.query('rollback');
  expect(plans).toHaveLength(3);
  for (const plan of plans) expect(plan).not.toContain('Seq Scan');
});
