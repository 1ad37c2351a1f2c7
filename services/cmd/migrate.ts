import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { serviceMigrations } from './migrations.ts';

// `npm run migrate`: brings the schemas of DATABASE_URL, or of the embedded Postgres, up to date and ends.
try {
  const env = readEnv(process.env);
  const logger = createLogger({ level: env.logLevel, name: 'migrate' });
  const embedded =
    env.databaseUrl === undefined ? await startEmbeddedPostgres({ dataDir: env.dataDir, logger }) : undefined;
  try {
    await migrateAll(env.databaseUrl ?? embedded!.url, serviceMigrations, logger);
  } finally {
    await embedded?.stop();
  }
  process.stdout.write('The database is up to date.\n');
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 1;
}
