import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import type { Fixture } from './support/fixture/server.ts';
import { startPortal, users } from './support/portal.ts';

let portal: Fixture;
let browser: Browser;
beforeAll(async () => {
  [portal, browser] = await Promise.all([startPortal(), launchBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

test('a wrong password is said, with the request id, and the form keeps what was typed', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/sign-in`);
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const alert = page.getByRole('alert');
  await alert.getByText('The email address or the password is wrong.').waitFor();
  expect(await alert.textContent()).toMatch(/Request req_[0-9a-f]+/);
  expect(await page.getByLabel('Email').inputValue()).toBe(users.member.email);
  await close();
});

test('the session outlives a reload by the HttpOnly cookie, and no token is where a script can read it', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  expect(await page.evaluate('document.cookie')).toBe('');
  expect(await page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}])')).toBe('[{},{}]');
  const cookie = (await page.context().cookies(`${portal.url}/api/v1/auth/refresh`))[0];
  expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict' });
  await close();
});

test('an expired access token is renewed once, unseen, whatever number of calls find out', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  for (const session of portal.state.accessTokens.values()) session.endsAtMs = 0;
  let refreshes = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/auth/refresh')) refreshes++;
  });
  await page.getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('table', { name: 'Jobs' }).waitFor();
  expect(refreshes).toBe(1);
  await close();
});

test('a session that is over leads to signing in and back to the same page', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.goto(`${portal.url}/keys?type=management`);
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  portal.state.accessTokens.clear();
  portal.state.refreshTokens.clear();
  await page.getByLabel('Status', { exact: true }).selectOption('active');
  await page.getByText('Sign in to go on to where you were.').waitFor();
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  expect(page.url()).toBe(`${portal.url}/keys?type=management&status=active`);
  await close();
});

test.each(['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)'])(
  'signing in never leads out of the portal: %s',
  async (next) => {
    const { page, close } = await openPage(browser);
    await page.goto(`${portal.url}/sign-in?next=${encodeURIComponent(next)}`);
    await page.getByLabel('Email').fill(users.member.email);
    await page.getByLabel('Password').fill(users.member.password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
    expect(page.url()).toBe(`${portal.url}/`);
    await close();
  },
);

test('signing out ends the session in every tab', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/keys`);
  await other.getByRole('table', { name: 'API keys' }).waitFor();
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await other.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await close();
});

test('accepting an invitation ticks each class of the password as it is met', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/accept-invite?token=good-token`);
  const met = async () =>
    page.getByRole('list', { name: 'Password rules' }).locator('[data-met="true"]').allTextContents();
  const button = page.getByRole('button', { name: 'Accept invitation' });
  const password = page.getByRole('textbox', { name: 'Password' });
  await password.fill('abc');
  expect(await met()).toEqual(['A lower-case letter (met)']);
  await password.fill('abcdefgH1');
  expect(await met()).toHaveLength(4);
  expect(await button.isDisabled()).toBe(true);
  await password.fill('abcdefgH1!');
  expect(await met()).toHaveLength(5);
  await page.getByLabel('First name').fill('Nina');
  await button.click();
  await page.getByText('Sign in with the address the invitation went to.').waitFor();
  await signIn(page, portal.url, { email: 'new.colleague@example.com', password: 'abcdefgH1!' });
  await page.getByRole('heading', { name: 'Hello, Nina' }).waitFor();
  await close();
});

test('a spent invitation is refused in words, and one without its token is explained', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/accept-invite?token=spent`);
  await page.getByRole('textbox', { name: 'Password' }).fill('abcdefgH1!');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.getByText('This invitation was used already, or it is too old.').waitFor();
  await page.goto(`${portal.url}/accept-invite`);
  await page.getByText('Open the link from your invitation mail').waitFor();
  await close();
});

test('a forgotten password is asked for and reset; registering says that it is unavailable', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/sign-in`);
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await page.getByLabel('Email').fill('whoever@example.com');
  await page.getByRole('button', { name: 'Mail me a link' }).click();
  await page.getByText('If an account has the address whoever@example.com').waitFor();
  await page.goto(`${portal.url}/reset-password?token=good-token`);
  await page.getByLabel('New password').fill('abcdefgH1!');
  await page.getByRole('button', { name: 'Set password' }).click();
  await page.getByText('Your password is changed.').waitFor();
  await page.getByRole('link', { name: 'How that works' }).click();
  await page.getByText('Self-service registration is unavailable.').waitFor();
  await close();
});
