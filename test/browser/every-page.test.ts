import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { seriousFindings } from './support/axe.ts';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type PageOfPortal, pagesOf } from './support/pages.ts';
import { type Portal, startPortal, users } from './support/portal.ts';
import { settled } from './support/settled.ts';

let portal: Portal;
let browser: Browser;
beforeAll(async () => {
  [portal, browser] = await Promise.all([startPortal(), launchBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

const looks = [
  { name: 'a desktop, light', options: { viewport: { width: 1280, height: 900 }, colorScheme: 'light' } },
  { name: 'a phone, dark', options: { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } },
] as const;

describe.each(looks)('on $name', ({ options }) => {
  test.each(['nobody', 'member', 'owner', 'operator'] as const)(
    'every page of %s is accessible, keeps the content policy, fits the screen and runs nobody’s markup',
    { timeout: 240_000 },
    async (as) => {
      const { page, troubles, close } = await openPage(browser, options);
      if (as !== 'nobody') await signIn(page, portal.url, users[as]);
      const wrong: string[] = [];
      for (const { name, path } of pagesOf(portal.world).filter((one: PageOfPortal) => one.as === as)) {
        await page.goto(portal.url + path);
        await settled(page);
        for (const finding of await seriousFindings(page)) wrong.push(`${name}: ${finding}`);
        const overflow = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        );
        if (Number(overflow) > 0) wrong.push(`${name}: ${overflow} px wider than the screen`);
        if ((await page.evaluate('window.hacked')) !== undefined) wrong.push(`${name}: a name ran as code`);
        if ((await page.title()) === 'Model Gateway') wrong.push(`${name}: no title of its own`);
        if ((await page.locator('[role="alert"]').count()) > 0)
          wrong.push(`${name}: ${await page.locator('[role="alert"]').first().textContent()}`);
        for (const trouble of troubles.splice(0)) wrong.push(`${name}: ${trouble}`);
      }
      expect(wrong).toEqual([]);
      await close();
    },
  );
});
