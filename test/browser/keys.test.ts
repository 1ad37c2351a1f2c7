import { expect, test } from 'vitest';
import { dialog, goWithin, openPage, row, signIn } from './support/browser.ts';
import { hostileName, users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok } from './support/world/people.ts';

sharePortal();

test('the list shows preview, type, status, restrictions, expiry warning, last use, uses and the quota', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  const checkout = await row(page, 'Checkout production').textContent();
  expect(checkout).toMatch(/sk-proj-\w{4}\.\.\.\w{4}inference10 scopes\$25\.00 a dayActive\d+ minutes? ago18,231/);
  const nightly = await row(page, 'Nightly evaluation').textContent();
  expect(nightly).toContain('Expires in 5 days');
  expect(nightly).toContain('1 model2 IP ranges');
  expect(await row(page, 'Old laptop').textContent()).toContain('Expired');
  await page.getByText('5 of 10 keys.').waitFor();
  await close();
});

test('without a quota the list mentions none', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/api-keys?**', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), quota: { used: 5, limit: null } } });
  });
  await signIn(page, portal.url, users.owner, '/keys');
  await row(page, 'Checkout production').waitFor();
  expect(await page.getByText(/\bof\b.* keys\./).count()).toBe(0);
  await close();
});

test('a name that is markup is shown as text', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByRole('link', { name: hostileName }).click();
  await page.getByRole('heading', { level: 1, name: hostileName }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await dialog(page)
    .getByRole('heading', { name: `Edit ${hostileName}` })
    .waitFor();
  expect(await page.evaluate('window.hacked')).toBeUndefined();
  expect(troubles).toEqual([]);
  await close();
});

test('an edit sends what changed, a rotation gives a new secret, and a deletion requires the name', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin, '/keys');
  await page.getByRole('link', { name: 'Checkout production' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  await dialog(page).getByLabel('Daily spend cap in USD').fill('40');
  const patch = page.waitForRequest((one) => one.method() === 'PATCH');
  await dialog(page).getByRole('button', { name: 'Save changes' }).click();
  expect((await patch).postDataJSON()).toEqual({ spend_cap_usd: 40 });
  await page.getByText('$40.00 a day').waitFor();

  await page.getByRole('button', { name: 'Rotate' }).click();
  await dialog(page).getByLabel('The old secret keeps working for').selectOption('0');
  await dialog(page).getByRole('button', { name: 'Create new secret' }).click();
  expect(await dialog(page).locator('[data-secret]').textContent()).toMatch(/^sk-proj-/);
  await dialog(page).getByRole('button', { name: 'I have copied it' }).click();

  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  const remove = dialog(page).getByRole('button', { name: 'Delete key' });
  await dialog(page).getByLabel("To confirm, type the key's name").fill('checkout production');
  expect(await remove.isDisabled()).toBe(true);
  // As a phone's keyboard ends a word.
  await dialog(page).getByLabel("To confirm, type the key's name").fill('Checkout production ');
  await remove.click();
  await page.getByText('Checkout production was deleted.').first().waitFor();
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  await row(page, 'Checkout production').waitFor({ state: 'detached' });
  await close();
});

test('an edit shows at once, and is undone if the gateway refuses it, but not what was changed elsewhere meanwhile', async () => {
  const cap = (usd: number) =>
    portal.gateway.call('PATCH', `/api/v1/api-keys/${portal.world.keyId}`, portal.world.people.owner.token, {
      spend_cap_usd: usd,
    });
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByRole('link', { name: 'Checkout production' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  expect((await cap(30)).status).toBe(200);
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await page.getByText('$30.00 a day').waitFor();
  const answer = Promise.withResolvers<void>();
  await page.route('**/api-keys/*', async (route) => {
    if (route.request().method() === 'PATCH') await answer.promise;
    await route.continue();
  });
  await dialog(page).getByLabel('Name').fill('y');
  await dialog(page).getByRole('button', { name: 'Save changes' }).click();
  // The dialog hides the rest of the page from assistive technology.
  await page.locator('h1').getByText('y', { exact: true }).waitFor();
  answer.resolve();
  await dialog(page)
    .getByText(/must have at least 2 characters/)
    .waitFor();
  await page.locator('h1').getByText('Checkout production', { exact: true }).waitFor();
  expect(await page.getByText(/ a day$/).textContent()).toBe('$30.00 a day');
  // What is no amount is not shown as one meanwhile.
  await dialog(page).getByLabel('Name').fill('Checkout production');
  await dialog(page).getByLabel('Daily spend cap in USD').fill('ten');
  const shown: (string | null)[] = [];
  await page.route('**/api-keys/*', async (route) => {
    shown.push(await page.getByText(/ a day$/).textContent());
    await route.continue();
  });
  await dialog(page).getByRole('button', { name: 'Save changes' }).click();
  await dialog(page)
    .getByText(/^It must be/)
    .waitFor();
  expect(shown).toEqual(['$30.00 a day']);
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('heading', { level: 1, name: 'Checkout production' }).waitFor();
  await cap(25);
  await close();
});

test('a key deleted elsewhere is shown as active only until someone looks at it or acts on it', async () => {
  const make = async (name: string) =>
    (await portal.gateway.call('POST', '/api/v1/api-keys', portal.world.people.owner.token, { name })).json
      .id as string;
  const remove = (id: string) =>
    portal.gateway.call('DELETE', `/api/v1/api-keys/${id}`, portal.world.people.owner.token);
  const { page, close } = await openPage(browser);
  await page.clock.install();
  const looked = await make('Looked at');
  await signIn(page, portal.url, users.owner, `/keys/${looked}`);
  await page.getByRole('heading', { level: 1, name: 'Looked at' }).waitFor();
  await remove(looked);
  await page.clock.fastForward(20_000);
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await page.getByRole('main').getByText('Deleted', { exact: true }).waitFor();
  expect(await page.getByText('Active', { exact: true }).count()).toBe(0);
  expect(await page.getByRole('button', { name: 'Edit' }).count()).toBe(0);

  const acted = await make(`Acted on: 'a--b' "c"...`);
  await page.goto(`${portal.url}/keys`);
  await row(page, 'Acted on').waitFor();
  await remove(acted);
  await page.getByRole('button', { name: 'Actions for Acted on' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  // As keyboards of phones change what is typed, a German one too.
  const confirm = dialog(page).getByLabel("To confirm, type the key's name");
  for (const typed of ['Acted on: ‘a—b’ “c”…', 'Acted on: ‚a—b‘ „c“...']) {
    await confirm.fill(typed);
    expect(await dialog(page).getByRole('button', { name: 'Delete key' }).isDisabled()).toBe(false);
  }
  await dialog(page).getByRole('button', { name: 'Delete key' }).click();
  await dialog(page).getByRole('alert').waitFor();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await row(page, 'Acted on').waitFor({ state: 'detached' });
  await close();
});

test('an operator revokes a key without ever seeing a secret, and its owner sees that it was revoked', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/keys');
  const first = page.getByRole('row').filter({ hasText: 'Checkout production' }).first();
  await first.getByRole('link', { name: 'Northwind Robotics' }).waitFor();
  // Another key may have the same name.
  const name = `Checkout production (${await first.locator('code').first().textContent()})`;
  await first.getByRole('button', { name: `Actions for ${name}` }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  await dialog(page)
    .getByRole('heading', { name: `Revoke ${name}?` })
    .waitFor();
  await dialog(page).getByRole('button', { name: 'Revoke key' }).click();
  await first.getByText('revoked').waitFor();
  expect(await page.content()).not.toMatch(/sk-proj-\w{5}/);
  await close();

  const its = await openPage(browser);
  await signIn(its.page, portal.url, users.owner, '/keys?status=expired');
  await row(its.page, 'Checkout production').getByText('Revoked').waitFor();
  await its.page.getByRole('link', { name: 'Checkout production' }).click();
  await its.page.getByRole('heading', { level: 1, name: 'Checkout production' }).waitFor();
  await its.page.getByRole('main').getByText('Revoked').nth(1).waitFor();
  expect(await its.page.getByRole('button', { name: 'Rotate' }).count()).toBe(0);
  await its.close();
});

test('the page of a key names the models and addresses it is restricted to, what is left of its cap and until when, since a touch screen shows no tooltips, and its id', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys?search=Nightly');
  await page.getByRole('link', { name: 'Nightly evaluation' }).click();
  const fact = (name: string) => page.locator('dt', { hasText: name }).locator('xpath=following-sibling::dd').first();
  await fact('Models').waitFor();
  const { data } = await ok(portal.gateway, 'GET', '/api-keys?search=Nightly', portal.world.people.owner.token);
  const [{ model_allowlist, ip_allowlist }] = data;
  const listed = async (name: string) => (await fact(name).innerText()).split('\n');
  expect([await listed('Models'), await listed('Addresses')]).toEqual([model_allowlist, ip_allowlist]);
  expect(await fact('Daily cap').innerText()).toBe('None');
  await goWithin(page, `/keys/${portal.world.keyId}`);
  await expect
    .poll(() => fact('Daily cap').innerText())
    .toMatch(/^\$25\.00 a day\n\$[\d.]+ spent today, \$[\d.]+ left · resets .+$/);
  expect(await fact('Id').innerText()).toContain(portal.world.keyId);
  await close();
});

test('whoever pastes a leaked secret into a search finds its key, and the secret is in no address', async () => {
  const { gateway, url, world } = portal;
  const { call } = gateway;
  const leaked = await call('POST', '/api/v1/api-keys', world.people.owner.token, { name: 'Leaked' });
  for (const [user, path] of [
    ['owner', '/keys'],
    ['operator', '/operator/keys'],
  ] as const) {
    const { page, close } = await openPage(browser);
    const addresses: string[] = [];
    page.on('request', (request) => addresses.push(request.url()));
    await signIn(page, url, users[user], path);
    await row(page, 'Checkout production').first().waitFor();
    await page.getByRole('searchbox', { name: 'Search keys' }).fill(` ${leaked.json.key} `);
    await row(page, 'Checkout production').first().waitFor({ state: 'detached' });
    await row(page, 'Leaked').waitFor();
    // The palette asks for organizations by what an operator types into it.
    const asked = user === 'operator' && page.waitForRequest(/\/admin\/organizations\?.*search=sk-/);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill(leaked.json.key);
    await page.getByRole('option', { name: 'Leaked' }).waitFor();
    await asked;
    expect([...addresses, page.url()].filter((address) => address.includes(leaked.json.key))).toEqual([]);
    await close();
  }
  await call('DELETE', `/api/v1/api-keys/${leaked.json.id}`, world.people.owner.token);
});

test('an operator who has found a key is led to the user whose key it is', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/keys?search=First+steps');
  await row(page, 'First steps').getByRole('link', { name: users.member.email }).click();
  await page.getByRole('heading', { level: 1, name: 'Northwind Robotics' }).waitFor();
  const members = page.getByRole('table', { name: 'Members' }).locator('tbody').getByRole('row');
  await members.filter({ hasText: users.member.email }).waitFor();
  expect(await members.count()).toBe(1);
  await close();
});

test('an operator gives a key rate limits of its own, one at a time, and removes them', async () => {
  const { page, close } = await openPage(browser);
  const { gateway, world } = portal;
  const { operator, tenantId } = world.people;
  const { json } = await gateway.call('GET', `/api/v1/admin/keys?tenant_id=${tenantId}&search=Load`, operator.token);
  const limitsOf = async () =>
    (await gateway.call('GET', '/api/v1/admin/keys?search=Load', operator.token)).json.data[0].rate_limits;
  const none = { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null };
  expect(json.data.map(({ rate_limits }: { rate_limits: unknown }) => rate_limits)).toEqual([none]);
  await signIn(page, portal.url, users.operator, '/operator/keys?search=Load');
  const row = page.getByRole('table', { name: 'Keys' }).getByRole('row').filter({ hasText: 'Load test' });
  const open = async () => {
    await row.getByRole('button', { name: 'Actions for Load test' }).click();
    await page.getByRole('menuitem', { name: 'Rate limits' }).click();
  };
  await open();
  // The limits that apply anyway are shown in the empty fields.
  await expect.poll(() => dialog(page).getByLabel('Requests / min').getAttribute('placeholder')).toMatch(/^\d+$/);
  expect(await dialog(page).getByRole('button', { name: 'Reset' }).count()).toBe(0);
  await dialog(page).getByLabel('Requests / min').fill('many');
  await dialog(page).getByRole('button', { name: 'Save limits' }).click();
  await expect.poll(() => dialog(page).getByLabel('Requests / min').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByLabel('Requests / min').fill('1200');
  await dialog(page).getByLabel('Concurrent').fill('7');
  await dialog(page).getByRole('button', { name: 'Save limits' }).click();
  await row.getByText('Requests / min: 1,200').waitFor();
  expect(await limitsOf()).toEqual({ ...none, requests_per_minute: 1200, concurrent_requests: 7 });
  // An emptied field returns to the organization's limit, and the others stay.
  await open();
  await dialog(page).getByLabel('Requests / min').fill('');
  // So does one that somebody else has set since the form was opened.
  const path = `/api/v1/admin/keys/${json.data[0].id}/rate-limits`;
  await gateway.call('PUT', path, operator.token, { requests_per_minute: 1200, concurrent_requests: 9 });
  await dialog(page).getByRole('button', { name: 'Save limits' }).click();
  // While a dialog is open no row can be found, whatever it contains.
  await row.waitFor();
  await row.getByText('Requests / min').waitFor({ state: 'detached' });
  expect(await limitsOf()).toEqual({ ...none, concurrent_requests: 9 });
  await open();
  await dialog(page).getByRole('button', { name: 'Reset' }).click();
  await row.waitFor();
  await row.getByText('Concurrent').waitFor({ state: 'detached' });
  expect(await limitsOf()).toEqual(none);
  await close();
});
