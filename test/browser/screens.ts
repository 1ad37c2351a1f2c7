import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { type PageOfPortal, pagesOf } from './support/pages.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { withPortal } from './support/standalone.ts';

/*
 * `npm run screens [name …]`: takes pictures of each page (or of those named) as the real gateway serves it, into test/browser/screens, on
 * a desktop, a laptop and a phone, light and dark. For people to look at; nothing is compared.
 */
const directory = fileURLToPath(new URL('./screens', import.meta.url));
const sizes = {
  desktop: { width: 1440, height: 900 },
  laptop: { width: 1024, height: 768 },
  phone: { width: 390, height: 844 },
} as const;
const wanted = process.argv.slice(2);

await withPortal({ days: 100, perDay: 24 }, async ({ url, world }, browser) => {
  if (wanted.length === 0) rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const pages = pagesOf(world).filter(({ name }) => wanted.length === 0 || wanted.includes(name));
  for (const as of new Set(pages.map((page) => page.as))) {
    for (const [size, viewport] of Object.entries(sizes)) {
      const { page, close } = await openPage(browser, { viewport, timezoneId: 'Europe/Zurich' });
      if (as === 'nobody') await page.goto(`${url}/sign-in`);
      else await signIn(page, url, users[as]);
      for (const { name, path } of pages.filter((one: PageOfPortal) => one.as === as)) {
        await goWithin(page, path);
        await settled(page);
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          const file = `${directory}/${name}-${size}-${colorScheme}.jpg`;
          await page.screenshot({ path: file, type: 'jpeg', quality: 70, fullPage: true });
        }
      }
      await close();
    }
  }
  process.stdout.write(`Pictures of ${pages.length} pages are in ${directory}\n`);
});
