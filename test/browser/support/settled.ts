import type { Page } from 'playwright-core';

const waiting = '[role="status"][aria-label="Loading"], .animate-pulse-soft, [aria-busy="true"]';

/**
 * Waits until a page shows everything: no skeleton is left, and nothing still waits for another answer. Uses locators, since the page's
 * policy forbids the scripts that waitForFunction would evaluate.
 */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  while ((await page.locator(waiting).count()) > 0) {
    await page.locator(waiting).first().waitFor({ state: 'detached' });
  }
  await page.evaluate('document.fonts.ready');
}
