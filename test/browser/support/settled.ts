import type { Page } from 'playwright-core';

const waiting = '[role="status"][aria-label="Loading"], .animate-pulse-soft, [aria-busy="true"]';

/**
 * Waits until a page shows what it has: no skeleton is left, and nothing that another answer is awaited for. Through locators, since the page's policy refuses the scripts
 * that waitForFunction would evaluate in it.
 */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  while ((await page.locator(waiting).count()) > 0) {
    await page.locator(waiting).first().waitFor({ state: 'detached' });
  }
  await page.evaluate('document.fonts.ready');
}
