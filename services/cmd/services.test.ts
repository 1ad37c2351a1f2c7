import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { readEnv } from '#shared/env.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createLogger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { sessionOf } from '../../test/support/keys.ts';
import { createEmptyDatabase, createTestDatabase, rowsOf } from '../../test/support/postgres.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { openBase } from './base.ts';
import { closeAll } from './close-all.ts';
import { startServices } from './services.ts';

const tenantId = uuidv7();
const event = () => ({
  tenantId,
  type: 'api_key_created' as const,
  occurredAtMs: 1_780_000_000_000,
  caller: sessionOf(),
  target: { type: 'api_key', id: uuidv7() },
  after: { name: 'a key' },
});

// The others do not need an answer of the database to start.
test.each(['auth', 'models', 'billing'] as const)(
  'a start of %s that fails half-way leaves no connection behind',
  async (name) => {
    await using database = await createEmptyDatabase();
    const dataDir = mkdtempSync(join(tmpdir(), 'services-'));
    const base = openBase(readEnv({ DATA_DIR: dataDir }), silentLogger);
    const admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    try {
      // Nothing has been migrated.
      await expect(startServices(base, [name], database.url)).rejects.toThrow(/does not exist/);
      const connections =
        'select application_name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';
      // The server takes a moment to end a connection that has said goodbye.
      await expect.poll(async () => (await admin.query(connections)).rows).toEqual([]);
    } finally {
      await admin.end();
      await closeAll(base.closers);
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
);

test('services that stop while they pass audit events on to Auth report no failure, and lose no event', async () => {
  await using database = await createTestDatabase();
  const dataDir = mkdtempSync(join(tmpdir(), 'services-'));
  const lines: string[] = [];
  const logger = createLogger({ level: 'info', name: 'test', destination: { write: (line) => void lines.push(line) } });
  const base = openBase(readEnv({ DATA_DIR: dataDir }), logger);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  // More than one call takes, so that another one follows.
  const waiting = ['keys', 'models', 'billing'];
  for (const service of waiting) {
    await client.query(`set search_path = ${service}`);
    for (let count = 0; count < 1_001; count += 1) await recordAuditEvent(client, event());
  }
  try {
    await client.query('begin');
    await client.query(`insert into auth.audit_heads (tenant_id, sequence, hash) values ($1, 0, '')`, [tenantId]);
    await startServices(base, serviceNames, database.url);
    const blocked = `select count(*)::int as count from pg_stat_activity where application_name like '%auth' and datname = current_database() and wait_event_type = 'Lock'`;
    await expect
      .poll(async () => (await rowsOf(database.url, blocked))[0].count, { timeout: 5_000 })
      .toBe(waiting.length);
    const closed = closeAll(base.closers.splice(0));
    await client.query('commit');
    await closed;
    const left = waiting.map((service) => `select id from ${service}.audit_outbox`).join(' union all ');
    const all = `select count(*)::int as count from (${left} union select id from auth.audit_events) as events`;
    expect(await rowsOf(database.url, all)).toEqual([{ count: waiting.length * 1_001 }]);
    // Not all lines: a busy machine causes others.
    expect(lines.filter((line) => /RecordAuditEvents|audit events/.test(line))).toEqual([]);
  } finally {
    await client.end();
    await closeAll(base.closers.splice(0));
    rmSync(dataDir, { recursive: true, force: true });
  }
});
