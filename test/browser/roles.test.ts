import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
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

const links = (page: Page) => page.getByRole('navigation', { name: 'Main' }).getByRole('link').allTextContents();
const dialog = (page: Page) => page.getByRole('dialog');
const everybody = ['Overview', 'API keys', 'Models', 'Playground', 'Jobs', 'Usage', 'Billing', 'Limits'];

test('a member sees own things only, and the other pages do not exist', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  expect(await links(page)).toEqual(everybody);
  for (const path of ['/organization', '/audit', '/operator/organizations', '/operator/keys']) {
    await page.goto(portal.url + path);
    await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  }
  await page.goto(`${portal.url}/billing`);
  await page.getByText('are shown to admins and owners').waitFor();
  await page.goto(`${portal.url}/usage`);
  await settled(page);
  expect(await page.getByRole('group', { name: 'Whose usage' }).count()).toBe(0);
  expect(await page.getByRole('tab', { name: 'By user' }).count()).toBe(0);
  await page.goto(`${portal.url}/limits`);
  await settled(page);
  expect(await page.getByLabel('Limit in USD').count()).toBe(1);
  await close();
});

test('an admin invites, changes roles but makes no owner, and sees everybody’s usage', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin);
  expect(await links(page)).toEqual([...everybody, 'Members', 'Audit log']);
  await page.goto(`${portal.url}/organization`);
  await page.getByRole('button', { name: 'Invite somebody' }).click();
  await dialog(page).getByLabel('Email').fill('nobody');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await dialog(page)
    .getByText(/must be a valid email address/)
    .waitFor();
  expect(await dialog(page).getByLabel('Role').locator('option').allTextContents()).toEqual(['Member', 'Admin']);
  await dialog(page).getByLabel('Email').fill('zoe@example.com');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await page.getByRole('tab', { name: 'Invitations' }).click();
  const invitation = page.getByRole('row').filter({ hasText: 'zoe@example.com' });
  await invitation.getByRole('button', { name: 'Withdraw' }).click();
  await invitation.getByText('withdrawn').waitFor();
  await page.goto(`${portal.url}/usage?scope=tenant&by=user`);
  await page.getByRole('table', { name: 'Usage by user' }).getByText('owner@example.com').waitFor();
  const { admin } = portal.world.people;
  const { json } = await portal.gateway.call('GET', '/api/v1/api-keys', admin.token);
  await portal.gateway.call('PATCH', `/api/v1/api-keys/${json.data[0].id}`, admin.token, { spend_cap_usd: 30 });
  const recorded = () => portal.gateway.call('GET', '/api/v1/audit-events?type=api_key_scope_updated', admin.token);
  await expect.poll(async () => (await recorded()).json.data.length).toBe(1);
  await page.goto(`${portal.url}/audit`);
  const change = page.getByRole('row').filter({ hasText: 'api_key_scope_updated' }).first();
  await change.locator('summary').click();
  await change.getByText(/^− .*25/).waitFor();
  await change.getByText(/^\+ .*30/).waitFor();
  await close();
});

test('an owner is told that the last owner stays, and the list goes back', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const role = page.getByLabel('Role of owner@example.com');
  await role.selectOption('member');
  await page
    .getByText(/last owner/)
    .first()
    .waitFor();
  await page.getByRole('row').filter({ hasText: 'owner@example.com' }).filter({ hasText: 'You' }).waitFor();
  await expect.poll(() => role.inputValue()).toBe('owner');
  await close();
});

test('money: limits are edited with the API’s complaint at the field, coupons are redeemed, invoices are fetched', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/limits');
  const limit = page.getByLabel('Limit in USD').first();
  await limit.fill('-1');
  await page.getByRole('button', { name: 'Save limit' }).first().click();
  await page.getByText(/expected an amount in USD from 0/).waitFor();
  await limit.fill('75');
  await page.getByRole('button', { name: 'Save limit' }).first().click();
  await page.getByText(/of \$75\.00/).waitFor();
  await page.goto(`${portal.url}/billing`);
  await page.getByLabel('Code').fill('nonsense');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('This code is unknown, used or expired.').waitFor();
  await page.getByLabel('Code').fill('welcome25');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('The coupon is redeemed').first().waitFor();
  await page.getByRole('tab', { name: 'Invoices' }).click();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: `PDF of ${portal.world.invoiceNumber}` }).click();
  expect((await download).suggestedFilename()).toBe(`invoice-${portal.world.invoiceNumber}.pdf`);
  await close();
});

test('an operator suspends an organization, everybody in it is told, and restores it', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/organizations');
  await page.getByRole('table').getByRole('link', { name: 'Northwind Robotics' }).click();
  await page.getByRole('button', { name: 'Suspend' }).click();
  await dialog(page).getByLabel('Reason').fill('Unpaid');
  await dialog(page).getByRole('button', { name: 'Suspend' }).click();
  await page.getByText('Suspended since').waitFor();
  const member = await openPage(browser);
  await signIn(member.page, portal.url, users.member, '/playground');
  await member.page.getByText('Northwind Robotics is suspended.').waitFor();
  await member.page.getByLabel('Message', { exact: true }).fill('Hello');
  await member.page.getByRole('button', { name: 'Send' }).click();
  await member.page
    .getByRole('alert')
    .getByText(/suspended/)
    .waitFor();
  expect(await member.page.getByLabel('Message', { exact: true }).inputValue()).toBe('Hello');
  await member.close();
  await page.getByRole('button', { name: 'Restore' }).click();
  await dialog(page).getByRole('button', { name: 'Restore' }).click();
  await page.getByText('Suspended since').waitFor({ state: 'detached' });
  await close();
});

test('an operator sees what an announcement will cause before making it', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'UTC' });
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  await page.getByRole('button', { name: 'Announce' }).click();
  await dialog(page).getByLabel('Model', { exact: true }).selectOption('acme/ember-8b:fast');
  await dialog(page).getByLabel('Successor', { exact: true }).selectOption('acme/ember-70b');
  const headers = dialog(page).getByRole('region', { name: 'Preview of the headers' });
  expect(await headers.textContent()).toMatch(
    /Deprecation: @\d{10}\nLink: <http.*\/retirements\/acme%2Fember-8b%3Afast>; rel="deprecation".*rel="successor-version"/,
  );
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).count()).toBe(0);
  await dialog(page).getByLabel('Retires (local time)').fill('2031-01-31T12:00');
  await dialog(page).getByText('Mail: 30 days left').waitFor();
  expect(await headers.textContent()).toContain('Sunset: Fri, 31 Jan 2031 12:00:00 GMT');
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).textContent()).toContain(
    'Its successor is acme/ember-70b: use that name as model.',
  );
  const shown = [headers, dialog(page).getByRole('region', { name: 'Preview of the mail' })];
  const [shownHeaders, shownMail] = await Promise.all(shown.map((region) => region.locator('pre').textContent()));
  await dialog(page).getByRole('button', { name: 'Announce' }).click();
  await page.getByText('The retirement of acme/ember-8b:fast is announced.').first().waitFor();
  // What the gateway then sends is what was shown.
  const { call } = portal.gateway;
  const { owner, operator } = portal.world.people;
  const address = `/v1/models/${encodeURIComponent('acme/ember-8b:fast')}`;
  const own = (text: string) => text.replaceAll(portal.url, portal.gateway.env.publicUrl);
  await expect.poll(async () => (await call('GET', address, owner.token)).headers.get('link')).not.toBeNull();
  const sent = (await call('GET', address, owner.token)).headers;
  const exactly = own(shownHeaders!).replace(/@\d+/, sent.get('deprecation')!);
  expect(`Deprecation: ${sent.get('deprecation')}\nSunset: ${sent.get('sunset')}\nLink: ${sent.get('link')}`).toBe(
    exactly,
  );
  const mailed = async () => {
    const { json } = await call('GET', '/api/v1/admin/mail?search=owner@example.com', operator.token);
    const mail = json.data.find(({ subject }: { subject: string }) => subject.includes('ember-8b'));
    return mail && `Subject: ${mail.subject}\n\n${mail.text.trim()}`;
  };
  await expect.poll(mailed, { timeout: 15_000 }).toBe(own(shownMail!));
  await page.goto(`${portal.url}/models`);
  await page
    .getByRole('row')
    .filter({ hasText: 'Ember 8B Fast' })
    .getByText(/Retiring · \d+ days left/)
    .waitFor();
  expect(await page.getByRole('row').filter({ hasText: 'Spark' }).textContent()).not.toContain('days left');
  await close();
});

test('an operator revokes a key without ever seeing a secret', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/keys');
  const first = page.getByRole('row').filter({ hasText: 'Checkout production' }).first();
  await first.getByRole('button', { name: 'Revoke' }).click();
  await dialog(page).getByRole('button', { name: 'Revoke key' }).click();
  await first.getByText('revoked').waitFor();
  expect(await page.content()).not.toMatch(/sk-proj-[0-9a-f]{8}/);
  await close();
});
