import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type PageOfPortal, pagesOf } from './support/pages.ts';
import { pageIdsOf, startPortal, users } from './support/portal.ts';
import { settled } from './support/settled.ts';

/*
 * `npm run screens [name …]`: pictures of each page (or of those named) into test/browser/screens, on a desktop and a phone,
 * light and dark. For people to look at; nothing is compared.
 */
const directory = fileURLToPath(new URL('./screens', import.meta.url));
const sizes = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } } as const;
const wanted = process.argv.slice(2);

const portal = await startPortal();
const browser = await launchBrowser();
try {
  if (wanted.length === 0) rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const { url } = portal;
  const pages = pagesOf(pageIdsOf(portal)).filter(({ name }) => wanted.length === 0 || wanted.includes(name));
  for (const [size, viewport] of Object.entries(sizes)) {
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const as of new Set(pages.map((page) => page.as))) {
        const { page, close } = await openPage(browser, { viewport, colorScheme, timezoneId: 'Europe/Zurich' });
        if (as !== 'nobody') await signIn(page, url, users[as]);
        for (const { name, path } of pages.filter((one: PageOfPortal) => one.as === as)) {
          await page.goto(url + path);
          await settled(page);
          await page.screenshot({ path: `${directory}/${name}-${size}-${colorScheme}.png`, fullPage: true });
        }
        await close();
      }
    }
  }
  process.stdout.write(`Pictures of ${pages.length} pages are in ${directory}\n`);
} finally {
  await browser.close();
  await portal[Symbol.asyncDispose]();
}
