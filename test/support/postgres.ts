import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import type { Logger } from '#shared/logger.ts';
import { serviceMigrations } from '../../services/cmd/migrations.ts';
import { withDatabase } from './with-database.ts';

export type TestDatabase = {
  /** Logs in as the superuser or owner; openServiceDatabase takes the restricted role by itself. */
  url: DatabaseUrl;
  name: string;
  drop(): Promise<void>;
} & AsyncDisposable;

/**
 * A migrated database of the test's own, in some tens of milliseconds. `await using database = await createTestDatabase()` drops it at the
 * end of the block; otherwise call `drop` in afterAll.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const template = inject('templateDatabase');
  if (template === undefined) throw new Error(`There is no database to copy: ${inject('templateFailure')}`);
  return createDatabase(inject('postgresUrl'), template);
}

/** An empty database of the test's own. */
export const createEmptyDatabase = (): Promise<TestDatabase> => createDatabase(inject('postgresUrl'), 'template0');

/** Creates the database that is copied; global-setup.ts calls it once per run. */
export async function createTemplateDatabase(serverUrl: DatabaseUrl, logger: Logger): Promise<TestDatabase> {
  const template = await createDatabase(serverUrl, 'template0');
  await migrateAll(template.url, serviceMigrations, logger);
  // The browser tests create one further database to copy.
  const drop = async (): Promise<void> => {
    await rowsOf(serverUrl, `drop database if exists ${template.name}_world with (force)`);
    await template.drop();
  };
  return { ...template, drop };
}

async function createDatabase(serverUrl: DatabaseUrl, template: string): Promise<TestDatabase> {
  const name = `mgtest_${process.pid}_${randomBytes(6).toString('hex')}`;
  await rowsOf(serverUrl, `create database ${name} template ${template} strategy file_copy`);
  const drop = async (): Promise<void> => {
    await rowsOf(serverUrl, `drop database if exists ${name} with (force)`);
  };
  return { url: withDatabase(serverUrl, name), name, drop, [Symbol.asyncDispose]: drop };
}

/** The rows returned by one statement, on a separate connection. */
// biome-ignore lint/suspicious/noExplicitAny: tests read rows of every shape; the assertions are the types.
export async function rowsOf(url: DatabaseUrl, statement: string, values: unknown[] = []): Promise<any[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(statement, values)).rows;
  } finally {
    await client.end();
  }
}
