import { migrateAll } from '#shared/db/migrate.ts';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { openDatabase } from './database.ts';
import { serviceMigrations } from './migrations.ts';

// `npm run migrate`: brings the schemas of DATABASE_URL, or of the embedded Postgres, up to date and ends.
try {
  // Someone who asks for `--help` or `--dry-run` does not want a migration, which cannot be taken back.
  if (process.argv.length > 2) throw new StartError('npm run migrate takes no arguments: it migrates at once.');
  const env = readEnv(process.env, []);
  const logger = createLogger({ level: env.logLevel, name: 'migrate' });
  const database = await openDatabase(env, logger);
  try {
    await migrateAll(database.connection, serviceMigrations, logger);
  } finally {
    await database.close();
  }
  process.stdout.write('The database is up to date.\n');
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 1;
}
