import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { expect, test } from 'vitest';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { pageRows } from '#shared/page.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../../../test/support/postgres.ts';
import { readSoFar } from '../../../test/support/read-so-far.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { pageOfAuditEvents } from './audit.repository.ts';

const organizations = [uuidv7(), uuidv7()];
const [tenantId] = organizations as [string];
/** When the first event occurred; one a minute follows. */
const startMs = Date.UTC(2030, 0, 1);

/** 20,000 events of two organizations in turn. Some are of a seldom type, and so are their actor and target; three of the oldest have one too. */
async function fill({ url }: TestDatabase): Promise<void> {
  const owning = new pg.Client({ connectionString: url });
  await owning.connect();
  await owning.query(`
    set search_path = auth;
    insert into audit_events
      select ('{${organizations}}'::uuid[])[1 + n % 2], 1 + n / 2,
        (lpad(to_hex(${startMs} + n * 60000::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
        case when seldom then 'credit_granted' else 'session_started' end,
        to_timestamp(${startMs / 1000} + n * 60), 1, case when seldom then 'somebody' when n < 5 then 'nobody now' else 'user ' || n % 150 end, '', 'user',
        case when seldom then 'something' else 'target ' || n end, '', '', '', '', ''
      from generate_series(0, 19999) n, lateral (select n % 1000 < 2 as seldom) as marked;
    insert into audit_heads select tenant_id, max(sequence), '' from audit_events group by 1`);
  await owning.query('vacuum analyze auth.audit_events');
  await owning.end();
}

/** How many events were read so far. */
const eventsRead = ({ url }: TestDatabase): Promise<number> =>
  readSoFar(url, "select idx_tup_fetch + seq_tup_read from pg_stat_user_tables where relname = 'audit_events'");

test('each page of a list of audit events has its events and the exact total, and reads little more, however many there are', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  await fill(testDatabase);
  const from = startMs + 3 * 86_400_000;
  const days = {
    by: { occurredFrom: timestampFromMs(from), occurredBefore: timestampFromMs(from + 6 * 3_600_000) },
    sql: `occurred_at >= to_timestamp(${from / 1000}) and occurred_at < to_timestamp(${from / 1000 + 6 * 3_600})`,
  };
  const narrowed = [
    { by: {}, sql: 'true' },
    { by: { type: 'credit_granted' }, sql: "type = 'credit_granted'" },
    { by: { actorId: 'somebody' }, sql: "actor_id = 'somebody'" },
    { by: { actorId: 'nobody now' }, sql: "actor_id = 'nobody now'" },
    { by: { actorId: 'nobody ever' }, sql: 'false' },
    { by: { targetId: 'something' }, sql: "target_id = 'something'" },
    { by: { targetId: 'nothing' }, sql: 'false' },
    days,
  ];
  const lists = narrowed.flatMap(({ by, sql }) => [
    { filter: { tenantId: null, ...by }, sql },
    { filter: { tenantId, ...by }, sql: `tenant_id = '${tenantId}' and ${sql}` },
  ]);
  const idsOf = async (sql: string): Promise<string[]> =>
    (await rowsOf(url, `select id from auth.audit_events where ${sql} order by id desc`)).map(({ id }) => id);
  const expected = await Promise.all(lists.map(({ sql }) => idsOf(sql)));

  for (const [index, { filter }] of lists.entries()) {
    const ids = expected[index]!;
    const readBefore = await eventsRead(testDatabase);
    const database = await openServiceDatabase({
      service: 'auth',
      connection: url,
      entities: [],
      logger: silentLogger,
    });
    const check = async (page: number): Promise<void> => {
      const rows = pageRows({ page, limit: 20 });
      const everything = { type: '', actorId: '', targetId: '', sequence: 0n };
      const { events, total } = await pageOfAuditEvents(database, { ...everything, ...filter }, rows);
      expect(events.map(({ record }) => record!.id)).toEqual(ids.slice(rows.offset, rows.offset + 20));
      expect(total).toBe(ids.length);
    };
    const pages = Math.ceil(ids.length / 20);
    // Pages far back in all chains are reached through an index of all events, which so few are not worth.
    const reached = filter.tenantId === null && pages > 100 ? [1, 2] : [1, 2, pages, pages + 1];
    for (const page of reached) if (page > 0) await check(page);
    await database.close();
    expect((await eventsRead(testDatabase)) - readBefore, lists[index]!.sql).toBeLessThan(3_000);
  }
});
