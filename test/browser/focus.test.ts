import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { dialog, goWithin, openPage, row, signIn, signInByForm } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok } from './support/world/people.ts';

sharePortal();

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

test('Back closes what is open over a page before it leaves the page, but not a secret that cannot be shown again', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.member);
  await goWithin(page, '/keys');
  const create = page.getByRole('button', { name: 'Create key' });
  for (const open of [
    create,
    page.getByRole('button', { name: 'Open navigation' }),
    page.getByRole('button', { name: 'Search' }),
  ]) {
    await open.click();
    await dialog(page).waitFor();
    await page.evaluate('history.back()');
    await dialog(page).waitFor({ state: 'detached' });
    expect(new URL(page.url()).pathname).toBe('/keys');
  }
  await create.click();
  await dialog(page).getByLabel('Name').fill('On a phone');
  await dialog(page).getByLabel('Name').press('Enter');
  const copied = page.getByRole('button', { name: 'I have copied it' });
  await copied.waitFor();
  await page.evaluate('history.back()');
  expect(new URL(page.url()).pathname).toBe('/keys');
  await copied.click();
  await dialog(page).waitFor({ state: 'detached' });
  await page.evaluate('history.back()');
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
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

/** The text around the focused element, up to the next one that matches. */
const textAround = (page: Page, selector: string): Promise<string> =>
  page.evaluate(`document.activeElement.closest(${JSON.stringify(selector)})?.textContent ?? ''`);

test('a keyboard user who deletes a key is at the row that followed', async () => {
  const { page, close } = await openPage(browser);
  const name = `To be deleted ${randomUUID()}`;
  await ok(portal.gateway, 'POST', '/api-keys', portal.world.people.owner.token, { name });
  await signIn(page, portal.url, users.owner, '/keys');
  await row(page, name).waitFor();
  const names = await page.getByRole('table').locator('tbody a').allTextContents();
  const following = names[names.indexOf(name) + 1]!;
  await page.getByRole('button', { name: `Actions for ${name}` }).press('Enter');
  await page.getByRole('menuitem', { name: 'Delete' }).press('Enter');
  await dialog(page).getByRole('textbox').fill(name);
  await page.keyboard.press('Enter');
  await dialog(page).waitFor({ state: 'detached' });
  await row(page, name).waitFor({ state: 'detached' });
  await expect.poll(() => textAround(page, 'tr')).toContain(following);
  await close();
});

test('a keyboard user stays in the row whose button removes itself', async () => {
  const { page, close } = await openPage(browser);
  const email = `withdrawn.${randomUUID()}@example.com`;
  await ok(portal.gateway, 'POST', '/invitations', portal.world.people.owner.token, { email, role: 'member' });
  await signIn(page, portal.url, users.owner, '/organization?tab=invitations');
  await row(page, email).getByRole('button', { name: 'Withdraw' }).press('Enter');
  await row(page, email).getByRole('button').waitFor({ state: 'detached' });
  await expect.poll(() => textAround(page, 'tr')).toContain(email);
  await close();
});

test('a keyboard user stays in a field that is saved', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/limits');
  const limit = page.getByRole('form', { name: 'Personal daily limit' }).getByLabel('Limit in USD');
  await limit.fill('51');
  await limit.press('Enter');
  await page.getByText('of $51.00').waitFor();
  expect(await page.evaluate('document.activeElement.value')).toBe('51');
  await close();
});
