import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';

// A stand-in for a gateway that a test can kill: starts Postgres on the given folder, says where, and stays running.
const postgres = await startEmbeddedPostgres({
  dataDir: process.argv[2]!,
  logger: createLogger({ level: 'warn', name: 'embedded-gateway' }),
  fast: true,
});
process.stdout.write(`${JSON.stringify({ url: postgres.url, postgresPid: postgres.pid() })}\n`);
process.once('SIGTERM', () => postgres.stop().then(() => process.exit(0)));
setInterval(() => {}, 60_000);
