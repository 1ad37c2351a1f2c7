import type { Browser } from 'playwright-core';
import { openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { withPortal } from './support/standalone.ts';

/*
 * `node test/browser/first-content.ts [loads]`: how long a cold load takes until its first content, and until its title is drawn, both for
 * a new visitor and for someone signed in. Each load has a fresh profile (no cache, no connection).
 */
const loads = Number(process.argv[2] ?? 15);

type Load = { firstContentMs: number; titleMs: number };

async function coldLoad(browser: Browser, url: string, signedIn: boolean): Promise<Load> {
  const { page, close } = await openPage(browser);
  if (signedIn) {
    await signIn(page, url, users.owner);
    // Only the session is kept.
    const session = await page.context().newCDPSession(page);
    await session.send('Network.clearBrowserCache');
    await page.goto('about:blank');
  }
  const startMs = performance.now();
  await page.goto(url, { waitUntil: 'commit' });
  await page.locator('h1').first().waitFor();
  const titleMs = performance.now() - startMs;
  const firstContentMs = await page.evaluate(
    `new Promise((resolve) => new PerformanceObserver((list) => {
      for (const { name, startTime } of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime);
    }).observe({ type: 'paint', buffered: true }))`,
  );
  await close();
  return { firstContentMs: Number(firstContentMs), titleMs };
}

const shown = (values: readonly number[]): string => {
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!);
  return `median ${at(0.5)} ms, 90th percentile ${at(0.9)} ms`;
};

await withPortal({ days: 20, perDay: 3 }, async ({ url }, browser) => {
  for (const signedIn of [false, true]) {
    const measured: Load[] = [];
    for (let load = 0; load < loads; load++) measured.push(await coldLoad(browser, url, signedIn));
    process.stdout.write(
      `${signedIn ? 'signed in' : 'signing in'}: first content ${shown(measured.map((one) => one.firstContentMs))}; ` +
        `title ${shown(measured.map((one) => one.titleMs))}\n`,
    );
  }
});
