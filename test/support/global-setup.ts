import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';
import { createTemplateDatabase } from './postgres.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Where the tests' Postgres is. */
    postgresUrl: string;
    /** The migrated database which each test's own is copied from. */
    templateDatabase: string;
  }
}

/** One Postgres for the whole run: TEST_DATABASE_URL's or DATABASE_URL's, otherwise an embedded one that is thrown away. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const givenUrl = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL;
  const dataDir = mkdtempSync(join(tmpdir(), 'mg-test-'));
  const logger = createLogger({ level: 'error', name: 'test' });
  const embedded = givenUrl ? undefined : await startEmbeddedPostgres({ dataDir, logger, fast: true });
  const url = givenUrl || embedded!.url;
  const stop = async (): Promise<void> => {
    await embedded?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  const template = await createTemplateDatabase(url, logger).catch(async (error) => {
    await stop();
    throw error;
  });
  project.provide('postgresUrl', url);
  project.provide('templateDatabase', template.name);

  return async () => {
    await template.drop();
    await stop();
  };
}
