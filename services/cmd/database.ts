import { checkReachable, type DatabaseUrl } from '#shared/db/connection.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';

/** Where the schemas are. */
export type OpenDatabase = { connection: DatabaseUrl; close(): Promise<void> };

/** The environment's database, or the embedded one. Imports little, so that it can start while everything else is imported. */
export async function openDatabase(env: Env, logger: Logger): Promise<OpenDatabase> {
  if (env.databaseUrl !== undefined) {
    return { connection: await checkReachable(env.databaseUrl), close: async () => {} };
  }
  const embedded = await startEmbeddedPostgres({ dataDir: env.dataDir, logger });
  return { connection: embedded.url, close: () => embedded.stop() };
}
