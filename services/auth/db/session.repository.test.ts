import { expect, test } from 'vitest';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { readSoFar } from '../../../test/support/read-so-far.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { SessionEntity } from './session.entity.ts';
import { endAllSessions, endUserSessions, hasSignedInFrom } from './session.repository.ts';

type Em = Parameters<typeof endAllSessions>[0];

const id = uuidv7();
/** Two accounts, one of which a script has opened sessions: `count` of them, each from the address that SQL makes of its number, `n`. */
const fill = (count: number, address: string) => `
  set search_path = auth;
  insert into organizations (id, name, created_at) values ('${id}', '', now());
  insert into users (id, tenant_id, email, first_name, last_name, role, password_hash, tokens_not_before, created_at)
    select one, '${id}', email, '', '', 1, '', now(), now()
    from (values ('${id}'::uuid, 'script@example.com'), ('${uuidv7()}', 'other@example.com')) as given (one, email);
  insert into sessions (tenant_id, id, user_id, ip, user_agent, created_at, issued_at, kid, access_token_id, refresh_token_id,
      refresh_token_hash, expires_at)
    select '${id}', gen_random_uuid(), '${id}', ${address}, '', now(), now(), '',
      '${id}', '${id}', '', now() from generate_series(1, ${count}) n;
  analyze sessions`;
const rowsRead = `select sum(idx_tup_read) + (select seq_tup_read from pg_stat_user_tables where relname = 'sessions')
  from pg_stat_user_indexes where relname = 'sessions'`;

test('whether somebody has signed in from an address is found by a few looks into the index, however often they did', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  await rowsOf(url, fill(5_000, "('{198.51.100.1,198.51.100.2,2001:db8:7:8::1}'::text[])[1 + n % 3]"));
  const before = await readSoFar(url, rowsRead);
  const database = await openServiceDatabase({ service: 'auth', connection: url, entities: [], logger: silentLogger });
  const known = (ip: string, email = 'script@example.com') => hasSignedInFrom(database, { email, ip });
  for (const ip of ['198.51.100.1', '198.51.100.2', '2001:db8:7:8:ffff::9']) expect(await known(ip), ip).toBe(true);
  for (const ip of ['198.51.100.3', '2001:db8:7:9::1', '']) expect(await known(ip), ip).toBe(false);
  for (const email of ['other@example.com', 'nobody@example.com']) {
    expect(await known('198.51.100.1', email)).toBe(false);
  }
  await database.close();
  expect((await readSoFar(url, rowsRead)) - before).toBeLessThan(100);
});

test('signing in from ever more addresses, as one line of IPv6 has, does not make each further look longer and longer', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  await rowsOf(url, fill(20_000, "case n when 1 then '9.9.9.9' else '2001:db8:7:8::' || to_hex(n) end"));
  const before = await readSoFar(url, rowsRead);
  const database = await openServiceDatabase({ service: 'auth', connection: url, entities: [], logger: silentLogger });
  const known = (ip: string) => hasSignedInFrom(database, { email: 'script@example.com', ip });
  expect(await known('2001:db8:7:8::4e20')).toBe(true);
  expect(await known('2001:db8:7:8:ffff::9')).toBe(true);
  expect(await known('198.51.100.1')).toBe(false);
  // Beyond the first thousand.
  expect(await known('9.9.9.9')).toBe(true);
  await database.close();
  expect((await readSoFar(url, rowsRead)) - before).toBeLessThan(6_000);
});

test('sessions can be ended however many there are, even if that takes longer than other statements may', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  await rowsOf(url, fill(10, "'198.51.100.1'"));
  await rowsOf(
    url,
    `set search_path = auth;
    update sessions set expires_at = now() + interval '7 days';
    create function take_time() returns trigger language plpgsql as $$ begin perform pg_sleep(0.6); return null; end $$;
    create trigger take_time before update on sessions execute function take_time()`,
  );
  const database = await openServiceDatabase({
    service: 'auth',
    connection: url,
    entities: [SessionEntity],
    logger: silentLogger,
    statementTimeoutMs: 300,
  });
  const live = async () => (await rowsOf(url, 'select from auth.sessions where ended_at is null')).length;
  for (const end of [endAllSessions, (em: Em, now: Date) => endUserSessions(em, id, now)]) {
    await rowsOf(
      url,
      'alter table auth.sessions disable trigger all; update auth.sessions set ended_at = null; alter table auth.sessions enable trigger all',
    );
    const limit = await transaction(database, async (em) => {
      await end(em, new Date());
      return em.execute('show statement_timeout');
    });
    expect(await live()).toBe(0);
    expect(limit).toEqual([{ statement_timeout: '300ms' }]);
  }
  await database.close();
});
