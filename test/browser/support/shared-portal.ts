import type { Browser } from 'playwright-core';
import { beforeAll } from 'vitest';
import { launchBrowser } from './browser.ts';
import { type Portal, startPortal } from './portal.ts';

/** Of the test file that runs, if it called `sharePortal`: the files of a process run one after another. */
export let portal: Portal;
export let browser: Browser;

/** Starts a portal and a browser for all tests of a file, and closes them after the last: first the browser, which is connected. */
export function sharePortal(): void {
  beforeAll(async () => {
    portal = await startPortal();
    return () => portal[Symbol.asyncDispose]();
  });
  beforeAll(async () => {
    browser = await launchBrowser();
    return () => browser.close();
  });
}
