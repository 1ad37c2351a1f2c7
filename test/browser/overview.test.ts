import { randomUUID } from 'node:crypto';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { seriousFindings } from './support/axe.ts';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type Portal, startPortal, users } from './support/portal.ts';
import { ok, tokenMailedTo } from './support/world/people.ts';

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

test('the most urgent of what needs attention comes first, and all but a few items are folded away', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/models', async (route) => {
    const response = await route.fetch();
    const { data } = await response.json();
    const retiring = data.find((model: { id: string }) => model.id === 'acme/ember-2');
    const more = Array.from({ length: 20 }, (_, day) => ({
      ...retiring,
      id: `many/${day}`,
      display_name: `Many ${day}`,
      sunset_at: new Date(Date.now() + (40 - day) * 86_400_000).toISOString(),
    }));
    await route.fulfill({ response, json: { data: [...data, ...more] } });
  });
  await signIn(page, portal.url, users.owner);
  const attention = page.locator('section').filter({ hasText: 'Needs attention' });
  const names = attention.locator('li:visible a');
  await expect.poll(() => names.count()).toBe(6);
  expect(await names.allInnerTexts()).toEqual([
    'Nightly evaluation',
    'Paint',
    'Many 19',
    'Many 18',
    'Many 17',
    'Ember 2',
  ]);
  await attention.getByText('18 more').click();
  await expect.poll(async () => (await names.allInnerTexts()).at(-1)).toBe('Spark');
  await close();
});

test('the overview says how many models one used beside those it lists, and what they cost together', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/usage/current', async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    const models = Array.from({ length: 8 }, (_, index) => ({
      ...json.models[0],
      model: `many/${index}`,
      cost_usd: 8 - index,
    }));
    await route.fulfill({ response, json: { ...json, models } });
  });
  await signIn(page, portal.url, users.owner);
  const used = page.locator('section').filter({ hasText: 'Models you used' });
  await used.getByText('2 more models for $3.00').waitFor();
  expect(await used.getByRole('row').count()).toBe(1 + 6);
  await close();
});

test('the overview says which budgets refuse calls, why and until when, and no more once there is room', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { operator } = portal.world.people;
  const ask = async (method: string, path: string, body?: object) => {
    const { status, json } = await call(method, `/api/v1${path}`, operator.token, body);
    expect(status).toBeLessThan(300);
    return json;
  };
  const organization = `/admin/organizations/${(await ask('GET', '/profile')).organization.id}`;
  await ask('PUT', '/admin/plans/prepaid', { name: 'Prepaid', payg_enabled: false });
  await ask('PUT', `${organization}/plan`, { code: 'prepaid' });
  await signIn(page, portal.url, users.operator);
  const attention = page.locator('section').filter({ hasText: 'Needs attention' });
  const item = (name: string) => attention.getByRole('listitem').filter({ hasText: name });
  const credit = item('The organization’s credit');
  await credit.getByText('nothing left').waitFor();
  await credit.getByText('Every call that costs anything is refused. Redeem a coupon').waitFor();

  await ask('POST', `${organization}/credits`, { amount_usd: 1 });
  await ask('POST', `${organization}/adjustments`, { amount_usd: -0.97, description: 'Refunded elsewhere' });
  await ask('PUT', '/profile/cost-limit', { limit_usd: 0 });
  const key = await ask('POST', '/api-keys', { name: 'Capped', spend_cap_usd: 0 });
  await page.reload();
  await credit.getByText('$0.03 left').waitFor();
  await credit.getByText('Once nothing is left, calls are refused.').waitFor();
  await item('Your daily limit').getByText('Every call that costs anything is refused until').waitFor();
  await item('Capped').getByText('Daily cap: nothing left').waitFor();
  expect(await seriousFindings(page)).toEqual([]);

  await ask('PATCH', `/api-keys/${key.id}`, { spend_cap_usd: 1 });
  await ask('DELETE', '/profile/cost-limit');
  await ask('PUT', '/admin/plans/prepaid', { name: 'Prepaid', payg_enabled: true });
  await ask('PUT', '/billing/payg-spend-cap', { limit_usd: 0 });
  await page.reload();
  await item('The organization’s pay-as-you-go cap').getByText('$0.03 left').waitFor();
  expect(await attention.getByText('refused').count()).toBe(1);
  await ask('DELETE', '/billing/payg-spend-cap');
  await page.reload();
  await attention.getByRole('listitem').first().waitFor();
  expect(await attention.getByText('refused').count()).toBe(0);
  await close();
});

test('the overview tells members, who may not see what the organization can pay, only of their own budgets', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/models', (route) => route.fulfill({ json: { data: [] } }));
  await signIn(page, portal.url, users.member);
  await page.getByText('no budget of yours is nearly used up').waitFor();
  await close();
});

test('the overview tells a member that nothing is left to pay calls with, and whom to ask', async () => {
  const { page, close } = await openPage(browser);
  const { gateway, world } = portal;
  const operator = world.people.operator.token;
  const { password } = users.member;
  const email = `${randomUUID()}@example.com`;
  const made = await ok(gateway, 'POST', '/admin/organizations', operator, {
    name: 'Prepaid Labs',
    owner_email: `owner-${email}`,
  });
  const organization = `/admin/organizations/${made.organization.id}`;
  await ok(gateway, 'POST', `${organization}/invitations`, operator, { email, role: 'member' });
  await ok(gateway, 'POST', '/auth/accept-invite', '', {
    token: await tokenMailedTo(gateway, operator, email),
    password,
  });
  await signIn(page, portal.url, { email, password });
  const item = page.getByRole('listitem').filter({ hasText: 'The organization’s' });
  const attention = page.locator('section').filter({ hasText: 'Needs attention' });
  await attention.getByRole('listitem').first().waitFor();
  expect(await item.count()).toBe(0);

  await ok(gateway, 'PUT', '/admin/plans/spent', operator, { name: 'Spent', payg_enabled: false });
  await ok(gateway, 'PUT', `${organization}/plan`, operator, { code: 'spent' });
  await page.reload();
  await item.getByText('nothing left').waitFor();
  await item
    .getByText('Every call that costs anything is refused. Ask an admin or owner of your organization.')
    .waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  await close();
});
