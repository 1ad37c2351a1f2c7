import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { createEmptyDatabase } from '../../test/support/postgres.ts';
import { openBase } from './base.ts';
import { closeAll } from './close-all.ts';
import { startServices } from './services.ts';

// The others do not need an answer of the database to start.
test.each(['auth', 'models', 'billing'] as const)(
  'a start of %s that fails half-way leaves no connection behind',
  async (name) => {
    await using database = await createEmptyDatabase();
    const dataDir = mkdtempSync(join(tmpdir(), 'services-'));
    const base = openBase(readEnv({ DATA_DIR: dataDir }), createLogger({ level: 'silent', name: 'test' }));
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
