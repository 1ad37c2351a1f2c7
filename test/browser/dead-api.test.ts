import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import type { Fixture } from './support/fixture/server.ts';
import { pagesOf } from './support/pages.ts';
import { pageIdsOf, startPortal, users } from './support/portal.ts';
import { settled } from './support/settled.ts';

let portal: Fixture;
let browser: Browser;
beforeAll(async () => {
  [portal, browser] = await Promise.all([startPortal(), launchBrowser()]);
});
afterEach(() => {
  portal.state.broken = false;
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

/** Pages that ask nothing of the API when they are opened, or only what is there already. */
const quiet = new Set(['create-key', 'not-found', 'settings', 'operator-health']);

test.each(['owner', 'operator'] as const)(
  'every page of %s says that the API does not answer, with a request id, and recovers',
  { timeout: 240_000 },
  async (as) => {
    const { page, troubles, close } = await openPage(browser);
    await signIn(page, portal.url, users[as]);
    const wrong: string[] = [];
    for (const { name, path } of pagesOf(pageIdsOf(portal)).filter((one) => one.as === as && !quiet.has(one.name))) {
      portal.state.broken = false;
      await page.goto(`${portal.url}/nothing-here`);
      await page.getByRole('heading', { name: 'Page not found' }).waitFor();
      portal.state.broken = true;
      // Within the portal, so that the session lives on and only the page's own calls fail.
      await page.evaluate(`history.pushState(null, '', ${JSON.stringify(path)}); dispatchEvent(new Event('popstate'))`);
      const alert = page.getByRole('main').getByRole('alert').first();
      await alert.getByText('This could not be loaded').waitFor();
      if (!/Request req_[0-9a-f]+/.test((await alert.textContent()) ?? '')) wrong.push(`${name}: no request id`);
      portal.state.broken = false;
      // The first page recovers on its own; the others are helped, to save time.
      const retry = page.getByRole('button', { name: 'Try again' });
      while (name !== 'overview' && (await retry.count()) > 0)
        await retry
          .first()
          .click({ timeout: 1000 })
          .catch(() => {});
      await page.getByRole('main').getByRole('alert').first().waitFor({ state: 'detached' });
      await settled(page);
      for (const trouble of troubles.splice(0)) wrong.push(`${name}: ${trouble}`);
    }
    expect(wrong).toEqual([]);
    await close();
  },
);

test('a lost network says so over what is on the page, and goes when it is back', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/jobs');
  await page.getByRole('table', { name: 'Jobs' }).waitFor();
  await page.context().setOffline(true);
  await page.getByText('You are offline.').waitFor();
  expect(await page.getByRole('table', { name: 'Jobs' }).isVisible()).toBe(true);
  await page.context().setOffline(false);
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await page.getByText('The gateway cannot be reached').waitFor({ state: 'detached' });
  await close();
});

test('a gateway that does not answer at the start is waited for', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.route('**/api/**', (route) => route.abort());
  await page.reload();
  await page.getByRole('heading', { name: 'The gateway cannot be reached' }).waitFor();
  await page.unroute('**/api/**');
  await page.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
  await close();
});
