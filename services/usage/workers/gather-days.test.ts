import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Granularity, GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { Role } from '#shared/rpc/caller.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { testEvent, testId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage } from '../fixtures/test-usage.ts';
import { gatherDays } from './gather-days.ts';

const dayMs = 86_400_000;
/** The worker goes by the database's clock. Two days ago is over and settled. */
const pastDayMs = (Math.floor(Date.now() / dayMs) - 2) * dayMs;
const isoDay = (ms: number) => new Date(ms).toISOString().slice(0, 10);
const organizations = 40;
const never = new AbortController().signal;

let usage: TestUsage;
let database: ServiceDatabase;
let owner: pg.Client;
beforeAll(async () => {
  usage = await startTestUsage();
  usage.clock.set(Date.now());
  const { logger } = logCollector();
  database = await openServiceDatabase({ service: 'usage', connection: usage.databaseUrl, entities: [], logger });
  owner = new pg.Client({ connectionString: usage.databaseUrl });
  await owner.connect();
  await owner.query('set search_path = usage');
  // As they arrive: each quarter hour of the day has calls of every organization.
  for (let quarter = 0; quarter < 96; quarter += 1) {
    await usage.client.record({ events: callsOf(pastDayMs + quarter * 900_000) }, asService());
  }
  await usage.client.record({ events: callsOf(Date.now()) }, asService());
});
afterAll(async () => {
  await owner.end();
  await database.close();
  await usage[Symbol.asyncDispose]();
});

/** Two calls of every organization. */
const callsOf = (atMs: number, models = ['small', 'large']) =>
  Array.from({ length: organizations * 2 }, (_, index) =>
    testEvent(atMs, { tenantId: testId(index % organizations), model: models[index < organizations ? 0 : 1]! }),
  );

/** The rows of a day that its daily roll-ups do not count. */
async function rowsOutsideDay(dayStartMs: number): Promise<number> {
  const { rows } = await owner.query<{ count: number }>(
    `select count(*)::int from rollups where not in_day
      and bucket_start >= $1 and bucket_start < $1::timestamptz + interval '1 day'`,
    [new Date(dayStartMs)],
  );
  return rows[0]!.count;
}

const reportOf = (organization: number) =>
  usage.client.getReport(
    {
      scope: UsageScope.TENANT,
      range: { startDate: isoDay(pastDayMs - dayMs), endDate: isoDay(Date.now()), timezone: 'Asia/Kathmandu' },
      granularity: Granularity.DAILY,
      groupBy: GroupBy.MODEL,
    },
    asPerson({ tenantId: testId(organization), userId: testId(2), role: Role.OWNER }),
  );

/** The pages that hold an organization's roll-ups of a day. */
async function pagesOf(organization: number, dayStartMs: number): Promise<number> {
  const { rows } = await owner.query<{ pages: number }>(
    `select count(distinct (ctid::text::point)[0])::int as pages from rollups
      where tenant_id = $1 and bucket_start >= $2 and bucket_start < $2::timestamptz + interval '1 day'`,
    [testId(organization), new Date(dayStartMs)],
  );
  return rows[0]!.pages;
}

test('an organization’s past day is stored together, and its reports stay what they were', async () => {
  const before = await reportOf(7);
  expect(await pagesOf(7, pastDayMs)).toBeGreaterThan(50);
  await gatherDays({ database }, never);
  // 192 rows of some 230 bytes, on half-filled pages.
  expect(await pagesOf(7, pastDayMs)).toBeLessThan(20);
  expect(await reportOf(7)).toEqual(before);
});

test('it covers all past days, and does nothing twice', async () => {
  await gatherDays({ database }, never);
  expect(await rowsOutsideDay(pastDayMs)).toBe(0);
  // Today is not over.
  expect(await rowsOutsideDay(Math.floor(usage.clock.now() / dayMs) * dayMs)).toBe(organizations * 2);
  const placesOf = async () => (await owner.query('select ctid, * from daily_rollups order by 1')).rows;
  const places = await placesOf();
  expect(places).toHaveLength(organizations * 2);
  await gatherDays({ database }, never);
  expect(await placesOf()).toEqual(places);
});

test('an organization whose day cannot be summed up holds up no other, and the round fails, which is logged', async () => {
  const dayBefore = pastDayMs - dayMs;
  await usage.client.record({ events: callsOf(dayBefore) }, asService());
  const refused = testId(3);
  await owner.query(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'no day for you'; end $$;
    create trigger refuse before insert on daily_rollups for each row when (new.tenant_id = '${refused}') execute function refuse()`);
  await expect(gatherDays({ database }, never)).rejects.toThrow(`${refused} on ${isoDay(dayBefore)}`);
  expect(await rowsOutsideDay(dayBefore)).toBe(2);
  await owner.query('drop function refuse cascade');
  await gatherDays({ database }, never);
  expect(await rowsOutsideDay(dayBefore)).toBe(0);
});

test('a late event is counted at once, whether its quarter hour already has a row or not', async () => {
  const before = await reportOf(7);
  const atMs = pastDayMs + dayMs / 2;
  await usage.client.record({ events: callsOf(atMs, ['small', 'newcomer']) }, asService());
  const after = await reportOf(7);
  expect(after.totals!.requests).toBe(before.totals!.requests + 2n);
  expect(await rowsOutsideDay(pastDayMs)).toBe(organizations);
  await gatherDays({ database }, never);
  expect(await rowsOutsideDay(pastDayMs)).toBe(0);
  expect(await reportOf(7)).toEqual(after);
});

test('late events of a day are counted once each while it is gathered, even by two processes', async () => {
  const requests = async () => (await reportOf(7)).totals!.requests;
  const before = await requests();
  let sent = 0n;
  let isDone = false;
  const late = async (): Promise<void> => {
    while (!isDone) {
      const atMs = pastDayMs + Number(sent % 96n) * 900_000;
      // One adds to a row, the other begins one.
      await usage.client.record({ events: callsOf(atMs, ['small', `late-${sent}`]) }, asService());
      sent += 2n;
    }
  };
  const gather = async (): Promise<void> => {
    for (let rounds = 0; rounds < 3 || sent < 6n; rounds += 1) {
      await Promise.all([gatherDays({ database }, never), gatherDays({ database }, never)]);
    }
    isDone = true;
  };
  await Promise.all([late(), gather()]);
  expect((await requests()) - before).toBe(sent);
  const { rows } = await owner.query(
    `select sum(requests)::text as requests from rollups
      union all select count(*)::text from events
      union all select sum(requests)::text from (
        select requests from daily_rollups union all select requests from rollups where not in_day) as days
      union all select sum(requests)::text from (
        select requests from weekly_rollups union all select requests from rollups where not in_day) as weeks`,
  );
  expect(new Set(rows.map((row) => row.requests)).size).toBe(1);
});

/** Gathers a day that has calls of another model, which takes until `letGo` since somebody else has a row of it. */
async function gatherSlowly(from: ServiceDatabase, model: string, signal = never) {
  await usage.client.record({ events: callsOf(pastDayMs, [model, model]) }, asService());
  const holder = await database.pool.connect();
  await holder.query('begin');
  const row = 'select from rollups where not in_day and bucket_start < $1 limit 1 for update';
  await holder.query(row, [new Date(pastDayMs + dayMs)]);
  const letGo = async (): Promise<void> => {
    await holder.query('commit');
    holder.release();
  };
  const gathered = gatherDays({ database: from }, signal).then(() => 'gathered', String);
  const running = `select 1 from pg_stat_activity where datname = current_database() and query like '%gathered as%' and state = 'active'
    and clock_timestamp() - query_start > $1 * interval '1 millisecond' and pid <> pg_backend_pid()`;
  /** Whether it has taken this long. */
  const hasTaken = async (ms: number): Promise<void> => {
    const isLate = async () => (await owner.query(running, [ms])).rowCount === 1;
    const late = waitFor(isLate, { description: 'a statement that takes its time', timeoutMs: 10_000 });
    await Promise.race([gathered, late]);
  };
  return { gathered, hasTaken, letGo };
}

test('a day of a large organization may take longer than other statements', async () => {
  const statementTimeoutMs = 1_000;
  const { logger } = logCollector();
  const connection = usage.databaseUrl;
  const hurried = await openServiceDatabase({ service: 'usage', connection, entities: [], logger, statementTimeoutMs });
  const { gathered, hasTaken, letGo } = await gatherSlowly(hurried, 'slow');
  await hasTaken(statementTimeoutMs * 1.5);
  await letGo();
  expect(await gathered).toBe('gathered');
  expect(await rowsOutsideDay(pastDayMs)).toBe(0);
  await hurried.close();
});

test('a stop does not wait for a long day, which is gathered after the next start', async () => {
  const stopping = new AbortController();
  const { gathered, hasTaken, letGo } = await gatherSlowly(database, 'slower', stopping.signal);
  await hasTaken(0);
  stopping.abort();
  expect(await gathered).not.toBe('gathered');
  await letGo();
  expect(await rowsOutsideDay(pastDayMs)).toBe(organizations);
  await gatherDays({ database }, never);
  expect(await rowsOutsideDay(pastDayMs)).toBe(0);
});
