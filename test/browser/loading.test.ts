import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('a page shows a sign of life while its scripts are on their way', async () => {
  const { page, close } = await openPage(browser);
  const release = await hold(page, '**/assets/index-*.js');
  await page.goto(portal.url, { waitUntil: 'commit' });
  await page.getByRole('img', { name: 'Loading' }).waitFor({ timeout: 5_000 });
  release();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  expect(await page.getByRole('img', { name: 'Loading' }).count()).toBe(0);
  await close();
});

/** Answers to these requests wait until the returned function is called. */
async function hold(page: Page, path: string): Promise<() => void> {
  const released = Promise.withResolvers<void>();
  await page.route(path, async (route) => {
    await released.promise;
    await route.fallback();
  });
  return released.resolve;
}

// 0.1 is what the Web Vitals call good. Where everything has a known height, nothing moves.
test.each([
  ['/', 0.1],
  ['/billing', 0.1],
  ['/limits', 0.005],
  ['/usage', 0.005],
  ['/jobs', 0.1],
])(
  'on a phone %s has room for its answers before they arrive, so that nothing jumps under a finger',
  async (path, most) => {
    const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
    await page.addInitScript(`
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const { value } of list.getEntries()) window.shift += value;
      }).observe({ type: 'layout-shift', buffered: true });
    `);
    await signIn(page, portal.url, users.owner, '/nothing-here');
    const release = await hold(page, '**/api/v1/**');
    await page.evaluate(
      `window.shift = 0; history.pushState(null, '', '${path}'); dispatchEvent(new Event('popstate'))`,
    );
    await page.locator('.animate-pulse-soft').first().waitFor();
    release();
    await settled(page);
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    expect(await page.evaluate('window.shift')).toBeLessThan(most);
    await close();
  },
);

test('the rows of the audit log stay where they are when people’s names arrive', async () => {
  const { page, close } = await openPage(browser);
  const release = await hold(page, '**/api/v1/members?*');
  await signIn(page, portal.url, users.owner, '/audit');
  const row = page.getByRole('table', { name: 'Audit events' }).getByRole('row').last();
  await row.waitFor();
  const top = async () => (await row.boundingBox())!.y;
  const before = await top();
  release();
  await page.locator('td[data-label="By"]').getByText('owner@example.com').first().waitFor();
  // Less than a line for all the rows together.
  expect(Math.abs((await top()) - before)).toBeLessThan(10);
  await close();
});

test('the cells of all jobs stay where they are when the names of their organizations arrive, however long', async () => {
  const { page, close } = await openPage(browser);
  const name = 'Adventure Works International Research Laboratories';
  await page.route('**/api/v1/admin/organizations?*', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    for (const organization of list.data) organization.name = name;
    await route.fulfill({ response: answer, json: list });
  });
  const release = await hold(page, '**/api/v1/admin/organizations?*');
  await signIn(page, portal.url, users.operator, '/operator/jobs');
  const cell = page.getByRole('table', { name: 'Jobs' }).getByRole('row').last().getByRole('cell').nth(2);
  await cell.waitFor();
  const before = await cell.boundingBox();
  release();
  await page.getByRole('link', { name }).first().waitFor();
  expect(await cell.boundingBox()).toEqual(before);
  await close();
});

test.each([
  ['a page', '**/api/v1/jobs/stats'],
  ['what surrounds every page', '**/api/v1/profile'],
])('an error in %s is called an error, not a broken connection, and can be reloaded away', async (_, broken) => {
  const { page, close } = await openPage(browser);
  await page.route(broken, (route) => route.fulfill({ json: {} }), { times: 1 });
  await page.goto(`${portal.url}/favicon.svg`);
  const message = page.getByRole('alert').filter({ hasText: 'This page could not be shown' });
  // Signing in waits for what surrounds every page.
  await Promise.any([signIn(page, portal.url, users.owner, '/jobs'), message.waitFor()]);
  await message.getByText('An error in the portal stopped it.').waitFor({ timeout: 5_000 });
  await message.getByRole('button', { name: 'Reload' }).click();
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  await page.getByRole('navigation', { name: 'Main' }).waitFor();
  await close();
});

test('a button’s new label is seen where the browser translates the page, which puts other text in the place of the old one', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/');
  const copy = page.getByRole('button', { name: 'Copy' });
  await copy.waitFor();
  await copy.evaluate((button) => {
    const document = button.ownerDocument;
    const texts = document.createTreeWalker(button, 4);
    const text = texts.nextNode()!;
    const font = document.createElement('font');
    font.textContent = text.textContent;
    text.parentNode!.replaceChild(font, text);
  });
  await copy.click();
  await page.getByRole('button', { name: /Copied|Press/ }).waitFor({ timeout: 5_000 });
  await close();
});

test('a change made in another tab is shown as soon as one returns to this one', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await settled(page);
  const told = await page.getByRole('main').getByRole('status').allTextContents();
  await portal.gateway.call('POST', '/api/v1/api-keys', portal.world.people.owner.token, { name: 'Made elsewhere' });
  // Headless pages are always visible, so only the event tells that this one is returned to.
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))');
  await page.getByText('Made elsewhere').waitFor({ timeout: 5000 });
  // Only what one searched for is told to screen readers, not what changes by itself.
  expect(await page.getByRole('main').getByRole('status').allTextContents()).toEqual(told);
  await close();
});

test('what never changes is not read again when one returns to its tab: the API’s description, and a job that has ended', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner);
  const paths: string[] = [];
  page.on('request', (request) => paths.push(new URL(request.url()).pathname));
  const job = `/jobs/${portal.world.jobId}`;
  for (const [path, read] of [
    ['/reference', '/openapi.json'],
    [job, `/api/v1${job}`],
  ] as const) {
    await goWithin(page, path);
    await settled(page);
    expect(paths).toContain(read);
    paths.length = 0;
    const profile = page.waitForResponse('**/api/v1/profile');
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))');
    await profile;
    expect(paths).not.toContain(read);
  }
  await close();
});
