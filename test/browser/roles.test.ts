import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { dialog, goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

const links = (page: Page) => page.getByRole('navigation', { name: 'Main' }).getByRole('link').allTextContents();
const everybody = [
  'Overview',
  'API keys',
  'Models',
  'Playground',
  'Jobs',
  'API reference',
  'Usage',
  'Billing',
  'Limits',
];

test('a member sees only their own things, and other pages do not exist', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  expect(await links(page)).toEqual(everybody);
  for (const path of ['/organization', '/audit', '/operator/organizations', '/operator/keys']) {
    await page.goto(portal.url + path);
    await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  }
  await page.goto(`${portal.url}/billing`);
  await page.getByText('Only admins and owners').waitFor();
  await page.goto(`${portal.url}/usage`);
  await settled(page);
  expect(await page.getByRole('group', { name: 'Whose usage' }).count()).toBe(0);
  expect(await page.getByRole('tab', { name: 'By user' }).count()).toBe(0);
  await page.goto(`${portal.url}/limits`);
  await settled(page);
  expect(await page.getByLabel('Limit in USD').count()).toBe(1);
  await close();
});

test('an operator is shown the pages of the area that they are in, and those of the other one without leaving the page', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.operator);
  const own = [...everybody, 'Members', 'Audit log'];
  const platform = [
    ...['Organizations', 'All keys', 'Calls', 'All jobs'],
    ...['Model catalog', 'Retirements', 'Plans', 'Coupons'],
    ...['Health', 'Mail outbox', 'Platform audit', 'Signing keys'],
  ];
  await page.getByRole('button', { name: 'Open navigation' }).click();
  expect(await links(page)).toEqual(own);
  await page.getByRole('button', { name: 'Platform' }).click();
  expect(await links(page)).toEqual(platform);
  await page.getByRole('link', { name: 'Plans' }).click();
  await page.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
  await page.getByRole('button', { name: 'Open navigation' }).click();
  expect(await links(page)).toEqual(platform);
  await page.getByRole('button', { name: 'Organization' }).click();
  expect(await links(page)).toEqual(own);
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
  await close();
});

test('an admin invites, changes roles but makes no owner, and sees everyone’s usage', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin);
  expect(await links(page)).toEqual([...everybody, 'Members', 'Audit log']);
  await page.goto(`${portal.url}/organization`);
  for (const name of [`Role of ${users.owner.email}`, `Deactivate ${users.owner.email}`])
    await expect.poll(() => page.getByLabel(name).isDisabled()).toBe(true);
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog(page).getByLabel('Email').fill('nobody');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await dialog(page)
    .getByText(/must be a valid email address/)
    .waitFor();
  expect(await dialog(page).getByLabel('Role').locator('option').allTextContents()).toEqual(['Member', 'Admin']);
  await dialog(page).getByLabel('Email').fill('zoe@example.com');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await page.getByText('If it does not arrive, ask the platform’s operator').first().waitFor();
  await page.getByRole('tab', { name: 'Invitations' }).click();
  const invitation = page.getByRole('row').filter({ hasText: 'zoe@example.com' });
  // Only an invitation that may still be accepted expires.
  const expires = invitation.locator('td[data-label="Expires"]');
  expect(await expires.innerText()).toMatch(/20\d\d/);
  await invitation.getByRole('button', { name: 'Withdraw' }).click();
  await invitation.getByText('withdrawn').waitFor();
  expect(await expires.innerText()).toBe('—');
  await page.goto(`${portal.url}/usage?scope=tenant&by=user`);
  await page.getByRole('table', { name: 'Usage by user' }).getByText('owner@example.com').waitFor();
  const { admin } = portal.world.people;
  const { json } = await portal.gateway.call('GET', '/api/v1/api-keys', admin.token);
  const capped = json.data.find(({ name }: { name: string }) => name === 'Checkout production');
  await portal.gateway.call('PATCH', `/api/v1/api-keys/${capped.id}`, admin.token, { spend_cap_usd: 30 });
  const recorded = () => portal.gateway.call('GET', '/api/v1/audit-events?type=api_key_scope_updated', admin.token);
  await expect.poll(async () => (await recorded()).json.data.length).toBe(1);
  await page.goto(`${portal.url}/audit`);
  const change = page.getByRole('row').filter({ hasText: 'api_key_scope_updated' }).first();
  await change.locator('summary').click();
  await change.getByText(/^− .*25/).waitFor();
  await change.getByText(/^\+ .*30/).waitFor();
  await close();
});

/** The changes of members that are requested from now on. None is made, so the world stays as later tests need it. */
async function changesOfMembers(page: Page): Promise<unknown[]> {
  const changes: unknown[] = [];
  await page.route('**/api/v1/members/*', async (route) => {
    changes.push(route.request().postDataJSON());
    await route.fulfill({ json: { email: users.member.email } });
  });
  return changes;
}

test('someone who meanwhile became a member sees it at once: in the navigation, on the page and below their name', async () => {
  const { page, close } = await openPage(browser);
  const { admin, owner } = portal.world.people;
  const make = (role: string) => portal.gateway.call('PATCH', `/api/v1/members/${admin.id}`, owner.token, { role });
  await signIn(page, portal.url, users.admin, '/organization');
  await page.getByRole('table', { name: 'Members' }).waitFor();
  const menu = page.getByRole('button', { name: /Adam Admin/ });
  expect(await menu.textContent()).toMatch(/admin$/);
  await make('member');
  await page.getByRole('tab', { name: 'Invitations' }).click();
  await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  expect(await links(page)).toEqual(everybody);
  expect(await menu.textContent()).toMatch(/member$/);
  await make('admin');
  await close();
});

test('a member is deactivated only after the owner has read what that does', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const changes = await changesOfMembers(page);
  const deactivate = page
    .getByRole('row')
    .filter({ hasText: users.member.email })
    .getByRole('button', { name: 'Deactivate' });
  await deactivate.click();
  await dialog(page).getByText('every call with their keys is refused').waitFor();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect(changes).toEqual([]);
  await deactivate.click();
  await dialog(page).getByRole('button', { name: 'Deactivate' }).click();
  await expect.poll(() => changes).toEqual([{ is_active: false }]);
  await close();
});

test('a second member is deactivated too, though the answer about the first is late', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const { admin, member } = portal.world.people;
  const changed: string[] = [];
  const answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/members/*', async (route) => {
    changed.push(new URL(route.request().url()).pathname.split('/').at(-1)!);
    await answer.promise;
    await route.fulfill({ json: { email: 'Somebody' } });
  });
  const act = dialog(page).getByRole('button', { name: 'Deactivate' });
  await page.getByRole('button', { name: `Deactivate ${users.member.email}` }).click();
  await act.click();
  await page.getByRole('button', { name: `Deactivate ${users.admin.email}` }).click();
  // Whatever the button looks like by now.
  await act.click({ force: true });
  answer.resolve();
  await page.getByText('Somebody was updated.').first().waitFor();
  await act.click({ timeout: 5_000 });
  await expect.poll(() => changed).toEqual([member.id, admin.id]);
  await close();
});

test('an answer whose form was dismissed meanwhile is told, whether good or bad, and closes no form that was opened since', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let sent = 0;
  await page.route('**/api/v1/invitations', async (route) => {
    const isRefused = sent === 1;
    await answers[sent++]!.promise;
    const error = { message: 'No more invitations this hour.', code: null, param: null };
    await route.fulfill(isRefused ? { status: 409, json: { error } } : { status: 201, json: {} });
  });
  const invite = async (email: string) => {
    await page.getByRole('button', { name: 'Invite someone' }).click();
    await dialog(page).getByLabel('Email').fill(email);
  };
  const dismiss = () => dialog(page).getByRole('button', { name: 'Cancel' }).click();
  for (const [index, told] of ['0@example.com was invited', 'No more invitations'].entries()) {
    await invite(`${index}@example.com`);
    await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
    await dismiss();
    await invite('typing@example.com');
    answers[index]!.resolve();
    await page.getByText(told).first().waitFor();
    expect(await dialog(page).getByLabel('Email').inputValue()).toBe('typing@example.com');
    await dismiss();
  }
  await close();
});

test('a role is changed only after the owner has read what that does, however it was chosen', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const changes = await changesOfMembers(page);
  const role = page.getByLabel(`Role of ${users.member.email}`);
  await role.focus();
  await page.keyboard.press('ArrowDown');
  await dialog(page).getByText('An admin invites and changes members').waitFor();
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await expect
    .poll(() => page.evaluate("document.activeElement.getAttribute('aria-label')"))
    .toMatch(/^Role of member/);
  expect([await role.inputValue(), changes]).toEqual(['member', []]);
  await page.getByLabel(`Role of ${users.owner.email}`).selectOption('admin');
  await dialog(page).getByText('You cannot undo this yourself.').waitFor();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await role.selectOption('admin');
  await dialog(page).getByRole('button', { name: 'Change role' }).click();
  await expect.poll(() => changes).toEqual([{ role: 'admin' }]);
  await close();
});

test('an owner is told that the last owner stays, and the list shows the old role again', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const role = page.getByLabel('Role of owner@example.com');
  const answer = Promise.withResolvers<void>();
  await page.route('**/members/*', async (route) => {
    await answer.promise;
    await route.continue();
  });
  await role.selectOption('member');
  await dialog(page).getByRole('button', { name: 'Change role' }).click();
  // Shown at once, before any answer.
  await expect.poll(() => role.inputValue()).toBe('member');
  answer.resolve();
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
  // The organization's cap is next to it, and either may appear first.
  const own = page.locator('section').filter({ hasText: 'Personal daily limit' });
  const limit = own.getByLabel('Limit in USD');
  await limit.fill('-1');
  await own.getByRole('button', { name: 'Save limit' }).click();
  await own.getByText(/Expected an amount in USD from 0/).waitFor();
  await limit.fill('75');
  await own.getByRole('button', { name: 'Save limit' }).click();
  await own.getByText(/of \$75\.00/).waitFor();
  // A limit that was removed leaves no complaint about another that was refused before.
  await limit.fill('7,5');
  await own.getByRole('button', { name: 'Save limit' }).click();
  await own.getByRole('alert').getByText('It must be a number.').waitFor();
  await own.getByRole('button', { name: 'Remove limit' }).click();
  await own.getByText('No limit.').waitFor();
  expect(await own.getByRole('alert').count()).toBe(0);
  await page.goto(`${portal.url}/billing`);
  const lots = page.getByRole('table', { name: 'Credit lots' });
  await lots.getByRole('row').filter({ hasText: 'promotion' }).getByText('$25.00').first().waitFor();
  await lots.getByRole('row').filter({ hasText: 'purchase' }).getByText('Never').first().waitFor();
  await page.getByText(/of \$500\.00/).waitFor();
  await page.getByText('Developer', { exact: true }).waitFor();
  await page.getByLabel('Code').fill('nonsense');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('This coupon code is unknown, already used or expired.').waitFor();
  await page.getByLabel('Code').fill('welcome25');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('Coupon redeemed').first().waitFor();
  await lots.getByRole('row').filter({ hasText: 'coupon' }).getByText('$25.00').first().waitFor();
  await page.getByRole('tab', { name: 'Transactions' }).click();
  const transactions = page.getByRole('table', { name: 'Transactions' });
  await transactions.getByText('Card payment').waitFor();
  await page.getByRole('tab', { name: 'Invoices' }).click();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: `PDF of ${portal.world.invoiceNumber}` }).click();
  expect((await download).suggestedFilename()).toBe(`invoice-${portal.world.invoiceNumber}.pdf`);
  await close();
});

test('rate limits show what is left, and a refused call says so', async () => {
  const { page, close } = await openPage(browser);
  const { operator, member, tenantId } = portal.world.people;
  const { call } = portal.gateway;
  await call('PATCH', `/api/v1/admin/organizations/${tenantId}`, operator.token, {
    rate_limits: { requests_per_minute: 1 },
  });
  const limits = async () => (await call('GET', '/api/v1/rate-limits', member.token)).json;
  await expect.poll(async () => (await limits()).limits.requests_per_minute).toBe(1);
  await signIn(page, portal.url, users.member, '/limits');
  await page.getByRole('meter', { name: 'Requests per minute' }).waitFor();
  await page.getByText('1 left now', { exact: true }).waitFor();
  const chat = { model: 'acme/ember-8b:fast', messages: [{ role: 'user', content: 'Hello' }] };
  expect((await call('POST', '/v1/chat/completions', member.token, chat)).status).toBe(200);
  await page.reload();
  await page.getByText('0 left now', { exact: true }).waitFor();
  expect(await page.getByRole('meter', { name: 'Requests per minute' }).getAttribute('aria-valuenow')).toBe('1');
  await goWithin(page, '/playground');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page
    .getByRole('alert')
    .getByText(/rate limit/i)
    .waitFor();
  await close();
});
