import type { Route } from 'playwright-core';
import { expect, test } from 'vitest';
import { dialog, goWithin, openPage, row, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

// What forms leave as it is: fields that nobody touched, and what others have changed meanwhile.

sharePortal();

test('whoever changes one rate of a price leaves the others as they are, and cached tokens cost as much as others unless set', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { operator } = portal.world.people;
  const model = 'acme/repriced';
  await call('POST', '/api/v1/admin/models', operator.token, { name: model, operations: ['chat_completions'] });
  const set = (fields: object) => call('POST', '/api/v1/admin/prices', operator.token, { model, ...fields });
  await set({ input_per_million_tokens_usd: 0.5, output_per_million_tokens_usd: 1.5, per_request_usd: 0.0000001 });
  await set({ per_request_usd: 1, effective_from: new Date(Date.now() + 86_400_000).toISOString() });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  await page.getByText('Upcoming').waitFor();
  await page.getByRole('button', { name: 'Set price' }).click();
  await dialog(page).getByLabel('Million input tokens').fill('0.75');
  const sent = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/admin/prices'));
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  expect((await sent).postDataJSON()).toEqual({
    model,
    input_per_million_tokens_usd: 0.75,
    output_per_million_tokens_usd: 1.5,
    per_request_usd: 0.0000001,
  });
  await dialog(page).waitFor({ state: 'detached' });
  await page.getByText('$0.75 per million cached input tokens').waitFor();
  await close();
});

test('a price and a limit are shown to their last digit, as they were set, and their forms begin with them in plain digits', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { operator, member } = portal.world.people;
  const model = 'acme/odd-price';
  await call('POST', '/api/v1/admin/models', operator.token, { name: model, operations: ['chat_completions'] });
  const price = { input_per_million_tokens_usd: 0.125, per_request_usd: 0.000000375 };
  await call('POST', '/api/v1/admin/prices', operator.token, { model, ...price });
  await call('PUT', '/api/v1/profile/cost-limit', member.token, { limit_usd: 0.000000125 });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  const rates = page.getByRole('table', { name: 'Prices' }).locator('td[data-label="Rates"]');
  expect((await rates.innerText()).split('\n')).toEqual([
    '$0.125 per million input tokens',
    '$0.125 per million cached input tokens',
    '$0.000000375 per request',
  ]);
  await page.getByRole('button', { name: 'Set price' }).click();
  expect(await dialog(page).getByLabel('Request').inputValue()).toBe('0.000000375');
  await signIn(page, portal.url, users.member, '/models');
  // Not all rates fit into the list, which says for what these are, and that there are others.
  await row(page, model).getByText('$0.125\u00a0in').waitFor();
  await row(page, model).getByText('per million tokens, and more').waitFor();
  await row(page, 'sandbox-image').getByText('per image', { exact: true }).waitFor();
  expect(await page.getByRole('columnheader', { name: 'Price' }).innerText()).toBe('Price');
  await signIn(page, portal.url, users.member, '/limits');
  await page.getByText('$0.00 of $0.000000125').waitFor();
  expect(await page.getByLabel('Limit in USD').inputValue()).toBe('0.000000125');
  await close();
});

test('a price set for later leaves the rates as they are by then, not as they are now, says when that is in UTC, is announced to users, and can be withdrawn', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'Europe/Zurich' });
  const { call } = portal.gateway;
  const { token } = portal.world.people.operator;
  const model = 'acme/rising';
  await call('POST', '/api/v1/admin/models', token, { name: model, operations: ['chat_completions'] });
  const next = { model, effective_from: '2031-01-01T00:00:00Z', input_per_million_tokens_usd: 2 };
  await call('POST', '/api/v1/admin/prices', token, { model, input_per_million_tokens_usd: 1 });
  await call('POST', '/api/v1/admin/prices', token, { ...next, per_request_usd: 0.01 });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  await page.getByText('Upcoming').waitFor();
  await page.getByRole('button', { name: 'Set price' }).click();
  await dialog(page).getByLabel('Million output tokens').fill('3');
  await dialog(page).getByLabel('In force from').fill('2031-02-01T00:00');
  await dialog(page).getByText('That is 2031-01-31 23:00:00 UTC.').waitFor();
  const sent = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/admin/prices'));
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  expect((await sent).postDataJSON()).toEqual({
    model,
    effective_from: '2031-01-31T23:00:00.000Z',
    input_per_million_tokens_usd: 2,
    output_per_million_tokens_usd: 3,
    per_request_usd: 0.01,
  });
  await goWithin(page, `/models/${encodeURIComponent(model)}`);
  const price = page.locator('section', { has: page.getByRole('heading', { name: 'Price' }) });
  await price.getByText('From Jan 1, 2031').waitFor();
  await expect
    .poll(() => price.getByRole('definition').allTextContents())
    .toEqual(['$1.00', '$1.00', '$2.00', '$2.00', '$0.01']);

  await goWithin(page, `/operator/models/${encodeURIComponent(model)}`);
  const withdraw = page.getByRole('table', { name: 'Prices' }).getByRole('button', { name: 'Withdraw' });
  await expect.poll(() => withdraw.count()).toBe(2);
  await page.getByRole('button', { name: 'Withdraw the price from 2031-01-01 00:00:00 UTC on' }).click();
  await dialog(page).getByText('from Jan 1, 2031').waitFor();
  await dialog(page).getByRole('button', { name: 'Withdraw price' }).click();
  await expect.poll(() => withdraw.count()).toBe(1);
  await goWithin(page, `/models/${encodeURIComponent(model)}`);
  await price.getByText('From Feb 1, 2031').waitFor();
  await close();
});

test('a date that was not typed to its end is none to a form: it says so and sends nothing until the date is completed or cleared', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { token } = portal.world.people.operator;
  const model = 'acme/half-dated';
  await call('POST', '/api/v1/admin/models', token, { name: model, operations: ['chat_completions'] });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  await page.getByRole('button', { name: 'Set price' }).click();
  const from = dialog(page).getByLabel('In force from');
  await dialog(page).getByLabel('Million input tokens').fill('3');
  await from.focus();
  // Without its time of day.
  await page.keyboard.type('12012031');
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  await dialog(page).getByText('Complete this, or clear it.').waitFor();
  expect(await from.evaluate((field) => field === field.ownerDocument.activeElement)).toBe(true);
  for (const _ of ['month', 'day', 'year']) {
    await page.keyboard.press('Backspace');
    await page.keyboard.press('ArrowRight');
  }
  await dialog(page).getByLabel('Request').focus();
  await dialog(page).getByText('Complete this, or clear it.').waitFor({ state: 'detached' });
  await from.fill('2031-12-01T00:00');
  const sent = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/admin/prices'));
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  expect((await sent).postDataJSON()).toHaveProperty('effective_from');
  await close();
});

test('no form says that it saved a field which was emptied, and kept it as it was', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { token } = portal.world.people.operator;
  const model = 'acme/emptied';
  const address = `/api/v1/admin/models/${encodeURIComponent(model)}`;
  await call('POST', '/api/v1/admin/models', token, { name: model, operations: ['chat_completions'] });
  const upstream = { base_url: 'http://localhost:9/v1', upstream_model: 'emptied-7b' };
  await call('POST', '/api/v1/admin/deployments', token, { model, ...upstream });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  await page.getByRole('table', { name: 'Deployments' }).getByRole('button', { name: 'Edit' }).click();
  await dialog(page).getByLabel("The upstream's name for the model").fill('');
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await call('GET', address, token)).json.deployments).toMatchObject([{ upstream_model: model }]);

  await page.getByRole('button', { name: 'Edit' }).first().click();
  for (const name of ['Display name', 'Made by']) {
    await dialog(page).getByLabel(name).fill('');
    await dialog(page).getByRole('button', { name: 'Save model' }).click();
    await expect.poll(() => dialog(page).getByLabel(name).getAttribute('aria-invalid')).toBe('true');
    await dialog(page).getByLabel(name).fill('Emptied');
  }
  await close();
});

test('an edit leaves alone what someone else has changed since its dialog was opened', async () => {
  const { page, close } = await openPage(browser);
  const { token } = portal.world.people.operator;
  const address = `/api/v1/admin/models/${encodeURIComponent('acme/ember-70b')}`;
  const model = async () => (await portal.gateway.call('GET', address, token)).json;
  const [deployment] = (await model()).deployments;
  const change = async (path: string, body: object) =>
    expect((await portal.gateway.call('PATCH', path, token, body)).status).toBe(200);
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent('acme/ember-70b')}`);
  await page.getByRole('table', { name: 'Deployments' }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).first().click();
  await dialog(page).getByLabel('Display name').fill('Ember Large');
  await change(address, { owned_by: 'Acme of Elsewhere', context_window: 4096 });
  await dialog(page).getByRole('button', { name: 'Save model' }).click();
  await page.getByRole('heading', { level: 1, name: 'Ember Large' }).waitFor();
  expect(await model()).toMatchObject({
    display_name: 'Ember Large',
    owned_by: 'Acme of Elsewhere',
    context_window: 4096,
  });

  await page.getByRole('table', { name: 'Deployments' }).getByRole('button', { name: 'Edit' }).click();
  await dialog(page).getByLabel('Weight').fill('7');
  await change(`/api/v1/admin/deployments/${deployment.id}`, { enabled: false, priority: 3 });
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await model()).deployments).toMatchObject([{ weight: 7, enabled: false, priority: 3 }]);
  await change(`/api/v1/admin/deployments/${deployment.id}`, { enabled: true, priority: 0 });
  await close();
});

test('what is typed while an answer is waited for is neither taken for what was sent, nor lost', async () => {
  const { page, close } = await openPage(browser);
  const path = `/organizations/${portal.world.otherOrganizationId}`;
  await signIn(page, portal.url, users.operator, `/operator${path}`);
  const answers: (() => void)[] = [];
  const held = (route: Route) => {
    if (route.request().method() === 'GET') return route.continue();
    return new Promise<void>((resolve) => answers.push(() => resolve(route.continue())));
  };
  await page.route(`**/api/v1/admin${path}`, held);
  const name = page.getByLabel('Name', { exact: true });
  const before = await name.inputValue();
  await name.fill('Acme Saved');
  await name.press('Enter');
  await expect.poll(() => answers.length).toBe(1);
  await name.fill('Acme Typed');
  answers.pop()!();
  await page.getByText('Settings saved.').first().waitFor();
  await page.getByRole('heading', { level: 1, name: 'Acme Saved' }).waitFor();
  expect(await name.inputValue()).toBe('Acme Typed');
  await name.fill(before);
  await name.press('Enter');
  await expect.poll(() => answers.length).toBe(1);
  answers.pop()!();
  await page.getByRole('heading', { level: 1, name: before }).waitFor();

  await goWithin(page, '/organization');
  await page.route('**/api/v1/invitations', held);
  await page.getByRole('button', { name: 'Invite' }).first().click();
  await dialog(page).getByLabel('Email').fill('asked@example.com');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await expect.poll(() => answers.length).toBe(1);
  await dialog(page).getByLabel('Email').fill('typed@example.com');
  answers.pop()!();
  await page.getByText('asked@example.com was invited by email.').first().waitFor();
  await close();
});

test('a complaint about what has no place of its own in a form is shown above its fields, and one that has a place only there', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(portal.world.model)}`);
  const refuse = async (param: string) => {
    await page.unrouteAll();
    await page.route('**/api/v1/admin/models/*', (route) =>
      route.request().method() === 'GET'
        ? route.fallback()
        : route.fulfill({
            status: 400,
            headers: { 'x-request-id': 'req_refused' },
            json: { error: { message: `Invalid value for \`${param}\`: not this one.`, param } },
          }),
    );
    await dialog(page).getByLabel('Display name').fill(`Ember, ${param}`);
    await dialog(page).getByRole('button', { name: 'Save model' }).click();
  };
  await page.getByRole('button', { name: 'Edit', exact: true }).first().click();
  const alerts = dialog(page).getByRole('alert');
  for (const [param, shown] of [
    ['visibility', 'Invalid value for `visibility`: not this one.Request req_refused'],
    ['display_name', 'Not this one.'],
    ['operations', 'Not this one.'],
    ['visibility', 'Invalid value for `visibility`: not this one.Request req_refused'],
  ] as const) {
    await refuse(param);
    await expect.poll(async () => (await alerts.allTextContents()).join(' and ')).toBe(shown);
    await dialog(page).getByText('Request req_refused').waitFor();
  }
  await close();
});

test('what is typed into a form while its answer is on its way stays, and the answer is told as what was sent', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, `/operator/organizations/${portal.world.otherOrganizationId}`);
  let sent = Promise.withResolvers<Route>();
  await page.route(/\/(credits|cost-limit)$/, async (route) => {
    if (route.request().method() === 'GET') await route.continue();
    else sent.resolve(route);
  });
  const amount = page.getByLabel('Amount in USD');
  await amount.fill('5');
  await page.getByLabel('Description').fill('welcome');
  await page.getByRole('button', { name: 'Grant credit' }).click();
  const credit = await sent.promise;
  await page.getByLabel('Source').selectOption('adjustment');
  await amount.fill('-7');
  await credit.continue();
  await page.getByText('Credit granted.').first().waitFor();
  expect(await amount.inputValue()).toBe('-7');
  expect(await page.getByLabel('Description').inputValue()).toBe('');

  await goWithin(page, '/limits');
  const personal = page.getByRole('form', { name: 'Personal daily limit' });
  const limit = personal.getByLabel('Limit in USD');
  await limit.fill('50');
  sent = Promise.withResolvers();
  await personal.getByRole('button', { name: 'Save limit' }).click();
  const saved = await sent.promise;
  await limit.fill('55');
  await saved.continue();
  await page.getByText('of $50.00').waitFor();
  expect(await limit.inputValue()).toBe('55');

  await page.unroute(/\/(credits|cost-limit)$/);
  await limit.fill('60.00');
  await personal.getByRole('button', { name: 'Save limit' }).click();
  await page.getByText('of $60.00').waitFor();
  await page.getByRole('button', { name: 'Remove limit' }).click();
  await page.getByText('Limit removed.').first().waitFor();
  await expect.poll(() => limit.inputValue()).toBe('');
  await close();
});
