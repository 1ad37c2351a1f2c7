import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { owner, testSecrets } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import type { StartedProcess } from '../support/processes.ts';
import { restCalls } from '../support/rest.ts';
import { waitFor } from '../support/wait-for.ts';

/** 10,000 in the long run (LONG=1). */
const users = process.env.LONG === '1' ? 10_000 : 1_500;
const model = 'sandbox-chat';

let database: TestDatabase;
let client: pg.Client;
let dataDir: string;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client(database.url);
  await client.connect();
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-reminders-'));
});
afterAll(async () => {
  await client?.end();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const startReplica = (name: string) =>
  startGatewayProcess({
    DATA_DIR: join(dataDir, name),
    DATABASE_URL: database.url,
    PUBLIC_URL: 'http://gateway.test',
    ...testSecrets,
  });

const mailed = async (): Promise<number> => {
  const { rows } = await client.query(`select count(*)::int as n from auth.mails where kind = 'model_retirement'`);
  return rows[0].n;
};

test(`${users} users are notified exactly once each, though workers die half-way`, { timeout: 300_000 }, async () => {
  let first = await startReplica('first');
  const second = await startReplica('second');
  const call = restCalls(first.url);
  const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
  await call('POST', '/api/v1/api-keys', session, { name: 'allows it', model_allowlist: [model] });
  await client.query(
    `insert into auth.users (id, tenant_id, email, first_name, last_name, role, is_active, password_hash, tokens_not_before, created_at)
     select gen_random_uuid(), o.tenant_id, 'user' || n || '@example.com', '', '', 1, n % 10 > 0, 'none', now(), now()
     from auth.users o, generate_series(1, $1) n where o.email = $2`,
    [users, owner.email],
  );
  const { rows } = await client.query('select count(*)::int as n from auth.users where is_active');
  const active: number = rows[0].n;

  const sunsetAt = new Date(Date.now() + 5 * 86_400_000).toISOString();
  await call('POST', '/api/v1/admin/retirements', session, {
    model,
    sunset_at: sunsetAt,
    retirement_note: 'None.',
  });
  const interrupted: number[] = [];
  const killInTheMiddle = async (child: StartedProcess): Promise<void> => {
    const from = interrupted.at(-1) ?? 0;
    await waitFor(async () => (await mailed()) > from, { description: 'some mails', timeoutMs: 60_000, intervalMs: 1 });
    await child.kill();
    interrupted.push(await mailed());
  };
  // Whichever of the two is working dies; the other takes over and dies as well.
  await killInTheMiddle(first.child);
  await killInTheMiddle(second.child);
  first = await startReplica('first');
  await waitFor(async () => (await mailed()) >= active, { description: 'all mails', timeoutMs: 120_000 });
  await waitFor(
    async () =>
      (await client.query('select 1 from models.reminder_points where point = 1 and done_at is not null')).rowCount,
    { description: 'the point to be done', timeoutMs: 30_000 },
  );
  await first.child.kill();

  expect(interrupted.every((count) => count > 0 && count < active)).toBe(true);
  const perUser = await client.query<{ times: number; n: number }>(
    `select times, count(*)::int as n from (
       select count(m.id)::int as times from auth.users u
       left join auth.mails m on m.to_user_id = u.id and m.kind = 'model_retirement' where u.is_active group by u.id) t
     group by times`,
  );
  expect(perUser.rows).toEqual([{ times: 1, n: active }]);
  expect(await mailed()).toBe(active);
  const reminders = await client.query('select status, count(*)::int as n from models.reminders group by status');
  expect(reminders.rows).toEqual([{ status: 2, n: active }]);
});
