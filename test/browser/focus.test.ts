import { setTimeout } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { goWithin, launchBrowser, openPage, signIn, signInByForm } from './support/browser.ts';
import { type Portal, startPortal, users } from './support/portal.ts';
import { settled } from './support/settled.ts';

let portal: Portal;
let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
  portal = await startPortal();
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

test('a change of page moves the focus to its title, however late its file arrives, and Back and Forward work', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await page.route('**/assets/*.js', async (route) => {
    await setTimeout(700);
    await route.continue();
  });
  await page.getByRole('link', { name: 'Models' }).click();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await expect.poll(() => page.evaluate('document.activeElement.outerHTML')).toMatch(/^<h1.*>Models</);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await page.goForward();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await close();
});

test('whoever signs in is at the title of the page that follows, and whoever opens a page is at its beginning', async () => {
  const { page, close } = await openPage(browser);
  const atTitle = (title: RegExp) =>
    expect.poll(() => page.evaluate('document.activeElement.outerHTML')).toMatch(title);
  await signInByForm(page, portal.url, users.member);
  await atTitle(/^<h1.*>Hello, Mia</);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await settled(page);
  expect(await page.evaluate('document.activeElement.localName')).toBe('body');
  await page.context().clearCookies();
  await signInByForm(page, portal.url, users.member, '/models');
  await atTitle(/^<h1.*>Models</);
  await close();
});

test('whoever signs in again after a session has ended is back in the field where they were typing', async () => {
  const { page, close } = await openPage(browser);
  await page.clock.install();
  await signInByForm(page, portal.url, users.member, '/settings');
  await expect.poll(() => focused(page)).toBe('Settings');
  const phone = page.getByLabel('Phone');
  await phone.fill('+41 44 000 00 00');
  await page.context().clearCookies();
  await page.route('**/api/v1/profile', (route) => route.fulfill({ status: 401 }), { times: 1 });
  await phone.press('Enter');
  await page.getByRole('textbox', { name: 'Email' }).fill(users.member.email);
  await page.getByRole('textbox', { name: 'Password' }).fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await phone.waitFor();
  await page.clock.fastForward(1_000);
  expect(await page.evaluate('document.activeElement.value')).toBe('+41 44 000 00 00');
  await close();
});

/** The name of the focused element. */
const focused = (page: Page): Promise<string> =>
  page.evaluate('document.activeElement.getAttribute("aria-label") || document.activeElement.textContent');

test('a closed dialog returns the focus to what opened it, whether a button, a menu or the palette’s keys, and to the title if an address did', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await settled(page);
  const isBack = (name: string) => () => expect.poll(() => focused(page)).toBe(name);
  const create = page.getByRole('button', { name: 'Create key' });
  const menu = page.getByRole('button', { name: 'Actions for Checkout production' });
  const menuName = (await menu.getAttribute('aria-label'))!;
  for (const [open, opened, back] of [
    [() => create.press('Enter'), 'Create an API key', isBack('Create key')],
    [
      async () => {
        await menu.press('Enter');
        await page.getByRole('menuitem', { name: 'Edit' }).press('Enter');
      },
      /./,
      isBack(menuName),
    ],
    [
      async () => {
        await create.focus();
        await page.keyboard.press('Control+k');
      },
      'Go to',
      isBack('Create key'),
    ],
  ] as const) {
    await open();
    await page.getByRole('dialog', { name: opened }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await back();
  }
  // Opened by its address, from a page that no longer exists.
  await page.goto(`${portal.url}/keys?create=1`);
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await expect.poll(() => focused(page)).toBe('API keys');
  await close();
});

test('a keyboard user stays on a button that disables itself when pressed, and Enter does nothing there', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/settings');
  let saves = 0;
  const answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/profile', async (route) => {
    if (route.request().method() !== 'GET') {
      saves++;
      await answer.promise;
    }
    await route.continue();
  });
  const save = page.getByRole('button', { name: 'Save profile' });
  await page.getByLabel('Phone').fill('+41 44 000 00 00');
  await save.press('Enter');
  await expect.poll(() => save.getAttribute('aria-busy')).toBe('true');
  expect(await save.isDisabled()).toBe(true);
  await page.keyboard.press('Enter');
  answer.resolve();
  await page.getByText('Profile saved.').first().waitFor();
  expect(await focused(page)).toBe('Save profile');
  expect(saves).toBe(1);

  await goWithin(page, '/billing?tab=transactions');
  const next = page.getByRole('button', { name: 'Next page' });
  await next.waitFor();
  for (let turns = 0; turns < 100 && !(await next.isDisabled()); turns++) {
    await next.press('Enter');
    await settled(page);
  }
  expect(await focused(page)).toBe('Next page');
  await close();
});

test('a keyboard user stays where a row or button was that removes itself, and stays in a field that is saved', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { token } = portal.world.people.owner;
  await call('POST', '/api/v1/api-keys', token, { name: 'To be deleted' });
  await call('POST', '/api/v1/invitations', token, { email: 'withdrawn@example.com', role: 'member' });
  const isWithin = (selector: string, text: string) =>
    page.evaluate(
      `document.activeElement.closest(${JSON.stringify(selector)})?.textContent.includes(${JSON.stringify(text)}) ?? false`,
    );
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByRole('row').filter({ hasText: 'To be deleted' }).waitFor();
  const names = await page.getByRole('table').locator('tbody a').allTextContents();
  const following = names[names.indexOf('To be deleted') + 1]!;
  await page.getByRole('button', { name: 'Actions for To be deleted' }).press('Enter');
  await page.getByRole('menuitem', { name: 'Delete' }).press('Enter');
  await page.getByRole('dialog').getByRole('textbox').fill('To be deleted');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('row').filter({ hasText: 'To be deleted' }).waitFor({ state: 'detached' });
  await expect.poll(() => isWithin('tr', following)).toBe(true);

  await goWithin(page, '/organization?tab=invitations');
  const invitation = page.getByRole('row').filter({ hasText: 'withdrawn@example.com' });
  await invitation.getByRole('button', { name: 'Withdraw' }).press('Enter');
  await invitation.getByRole('button').waitFor({ state: 'detached' });
  await expect.poll(() => isWithin('tr', 'withdrawn@example.com')).toBe(true);

  await goWithin(page, '/limits');
  const limit = page.getByLabel('Limit in USD').first();
  await limit.fill('51');
  await limit.press('Enter');
  await page.getByText('of $51.00').waitFor();
  expect(await page.evaluate('document.activeElement.value')).toBe('51');
  await close();
});
