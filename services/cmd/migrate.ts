import { readEnv } from '#shared/env.ts';
import { StartError } from '#shared/start-error.ts';
import { startFailure } from './start-failure.ts';

// `npm run migrate`: brings the schemas of DATABASE_URL, or of the embedded Postgres, up to date and ends.
try {
  // Someone who asks for `--help` or `--dry-run` does not want a migration, which cannot be taken back.
  if (process.argv.length > 2) throw new StartError('npm run migrate takes no arguments: it migrates at once.');
  const env = readEnv(process.env, []);
  const [{ createLogger }, { openDatabase }, { migrateAll }, { serviceMigrations }] = await Promise.all([
    import('#shared/logger.ts'),
    import('./database.ts'),
    import('#shared/db/migrate.ts'),
    import('./migrations.ts'),
  ]);
  const logger = createLogger({ level: env.logLevel, name: 'migrate' });
  const database = await openDatabase(env, logger);
  try {
    await migrateAll(database.connection, serviceMigrations, logger);
  } finally {
    await database.close();
  }
  process.stdout.write('The database is up to date.\n');
} catch (error) {
  process.stderr.write(`${startFailure(error as Error) ?? (error as Error).stack}\n`);
  process.exitCode = 1;
}
