import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { isRunning } from '#shared/is-running.ts';
import { createLogger } from '#shared/logger.ts';
import { createTemplateDatabase } from './postgres.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Where the tests' Postgres is. */
    postgresUrl: string;
    /** The migrated database of which each test gets a copy. */
    templateDatabase: string | undefined;
    /** Why there is no such database. */
    templateFailure: string | undefined;
  }
}

/** One Postgres for the whole run: TEST_DATABASE_URL's or DATABASE_URL's, otherwise a temporary embedded one. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const givenUrl = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL;
  const folder = quickestFolder();
  removeLeftovers(folder);
  const dataDir = mkdtempSync(join(folder, `mg-test-${process.pid}-`));
  const logger = createLogger({ level: 'error', name: 'test' });
  const embedded = givenUrl ? undefined : await startEmbeddedPostgres({ dataDir, logger, fast: true });
  const url = givenUrl || embedded!.url;
  const template = await createTemplateDatabase(url, logger).catch((error: Error) => error);
  project.provide('postgresUrl', url);
  // A failing migration must not prevent tests that need none from running.
  if (template instanceof Error) project.provide('templateFailure', template.message);
  else project.provide('templateDatabase', template.name);

  return async () => {
    if (!(template instanceof Error)) await template.drop();
    await embedded?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
}

/** A run that was killed leaves its Postgres behind, which takes 100 MB of memory. */
function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = /^mg-test-(\d+)-/.exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

/** Room for a few hundred databases of 8 MB. */
const memoryBytesMin = 4 * 1024 ** 3;

/** In a memory file system, copying the template takes 40 ms; on an ordinary disk up to ten times as long. */
function quickestFolder(): string {
  const memory = '/dev/shm';
  if (!existsSync(memory)) return tmpdir();
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= memoryBytesMin ? memory : tmpdir();
}
