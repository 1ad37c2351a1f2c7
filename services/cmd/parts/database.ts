import type { DatabaseUrl } from '#shared/db/connection.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import type { Base } from '../base.ts';
import { type OpenDatabase, openDatabase } from '../database.ts';
import { serviceMigrations } from '../migrations.ts';

/** Opens the database, unless it was opened already, and brings its schemas up to date. */
export async function startDatabase(
  { env, logger, closers }: Base,
  begun: Promise<OpenDatabase> | undefined,
): Promise<DatabaseUrl> {
  const { connection, close } = await (begun ?? openDatabase(env, logger));
  closers.push(close);
  await migrateAll(connection, serviceMigrations, logger);
  return connection;
}
