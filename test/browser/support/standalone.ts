import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';
import { launchBrowser } from './browser.ts';
import { type Portal, startPortalOn } from './portal.ts';
import type { WorldSize } from './world/index.ts';

/** Runs something with its own portal, browser and Postgres, for scripts outside a test run. */
export async function withPortal(
  size: WorldSize,
  work: (portal: Portal, browser: Browser) => Promise<void>,
): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'portal-'));
  const logger = createLogger({ level: 'error', name: 'portal' });
  const postgres = await startEmbeddedPostgres({ dataDir, logger, fast: true });
  try {
    await using portal = await startPortalOn(postgres.url, size);
    const browser = await launchBrowser();
    try {
      await work(portal, browser);
    } finally {
      await browser.close();
    }
  } finally {
    await postgres.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}
