import { expect, test } from 'vitest';
import { formatUsd } from '../../edge/portal/src/format/number.ts';
import { wavHeader } from '../../services/models/audio/wav-header.ts';
import { dialog, goWithin, openPage, row, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok, tokenMailedTo } from './support/world/people.ts';

sharePortal();

test('an operator creates an organization, its credit, limits and a coupon, ends the coupon after a confirmation, and sees the mail', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/organizations');
  await page.getByRole('button', { name: 'Create organization' }).click();
  await dialog(page).getByLabel('Name').fill('Fabrikam');
  await dialog(page).getByLabel("Owner's email").fill('nobody');
  await dialog(page).getByRole('button', { name: 'Create and invite' }).click();
  await dialog(page)
    .getByText(/valid email address/)
    .waitFor();
  await dialog(page).getByLabel("Owner's email").fill('first@fabrikam.example');
  await dialog(page).getByRole('button', { name: 'Create and invite' }).click();
  const passItOn = page.getByText('pass on the link in the mail outbox');
  await passItOn.first().waitFor();

  // Those whose owner names them do not exist yet, and are not made if their address was wrong.
  const founding = page.getByRole('table', { name: 'Pending invitations' }).getByRole('row');
  const founder = founding.filter({ hasText: 'founder@adatum.example' });
  const mistyped = founding.filter({ hasText: 'foundr@adatum.example' });
  await page.getByRole('button', { name: 'Create organization' }).click();
  await dialog(page).getByLabel("Owner's email").fill('foundr@adatum.example');
  await dialog(page).getByRole('button', { name: 'Create and invite' }).click();
  await mistyped.getByRole('button', { name: 'Withdraw' }).click();
  await mistyped.waitFor({ state: 'detached' });
  // One that was accepted meanwhile is not shown as pending any longer.
  const token = await tokenMailedTo(portal.gateway, portal.world.people.operator.token, 'founder@adatum.example');
  const acceptance = { token, password: users.owner.password, organization_name: 'A. Datum' };
  await ok(portal.gateway, 'POST', '/auth/accept-invite', '', acceptance);
  await founder.getByRole('button', { name: 'Withdraw' }).click();
  await page.getByText('This invitation was accepted.').first().waitFor();
  await founding.first().waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Fabrikam' }).click();

  await page.getByLabel('Requests / min').fill('many');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.getByText('It must be an integer.').waitFor();
  await page.getByLabel('Requests / min').fill('1200');
  await page.getByLabel('Keys per user').fill('25');
  const patch = page.waitForRequest((one) => one.method() === 'PATCH');
  await page.getByRole('button', { name: 'Save settings' }).click();
  expect((await patch).postDataJSON()).toEqual({ key_quota: 25, rate_limits: { requests_per_minute: 1200 } });
  await page.getByText('Settings saved.').first().waitFor();
  // The next change is compared with what was saved, so a quota can be set back.
  await page.getByLabel('Keys per user').fill('10');
  const back = page.waitForRequest((one) => one.method() === 'PATCH');
  await page.getByRole('button', { name: 'Save settings' }).click();
  expect((await back).postDataJSON()).toEqual({ key_quota: 10 });
  await page.getByLabel('Amount in USD').first().fill('40');
  await page.getByRole('button', { name: 'Grant credit' }).click();
  await page.getByText('$40.00').waitFor();
  await page.getByLabel('Source').selectOption('Adjustment');
  await page.getByLabel('Amount in USD').first().fill('-15');
  await page.getByLabel('Description').fill('Granted twice');
  await page.getByRole('button', { name: 'Adjust balance' }).click();
  await page.getByText('$25.00').waitFor();
  // A lost dispute about credit that is spent.
  await page.getByLabel('Amount in USD').first().fill('-40');
  await page.getByLabel('Description').fill('Dispute lost');
  await page.getByRole('button', { name: 'Adjust balance' }).click();
  await page.getByText('only 25 USD of credit left').waitFor();
  await page.getByLabel('Allow a negative balance').check();
  await page.getByRole('button', { name: 'Adjust balance' }).click();
  await page.getByText('−$15.00').waitFor();
  expect(await page.getByLabel('Allow a negative balance').isChecked()).toBe(false);

  // Its owner can be invited again, for instance if the address was wrong.
  await page.getByRole('tab', { name: 'Invitations' }).click();
  const first = page.getByRole('row').filter({ hasText: 'first@fabrikam.example' });
  await first.getByRole('button', { name: 'Withdraw' }).click();
  await first.getByText('withdrawn').waitFor();
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog(page).getByLabel('Email').fill('second@fabrikam.example');
  await dialog(page).getByLabel('Role').selectOption('Owner');
  await passItOn.first().waitFor({ state: 'detached' });
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
  await passItOn.first().waitFor();
  const second = page.getByRole('row').filter({ hasText: 'second@fabrikam.example' });
  await second.getByText('pending').waitFor();
  await second.getByText('owner', { exact: true }).waitFor();

  await page.goto(`${portal.url}/operator/coupons`);
  await page.getByRole('button', { name: 'Create coupon' }).click();
  await dialog(page).getByLabel('Code').fill('SPRING-2031');
  await dialog(page).getByLabel('Amount in USD').fill('10');
  const today = new Date().toISOString().slice(0, 10);
  await dialog(page).getByLabel('Redeem until').fill(today);
  await dialog(page).getByRole('button', { name: 'Create coupon' }).click();
  await dialog(page).getByText('SPRING-2031').waitFor();
  await dialog(page).getByRole('button', { name: 'I have copied it' }).click();
  const coupon = page.getByRole('row').filter({ hasText: '$10.00' });
  await coupon.waitFor();
  // The chosen day is the last one on which it can be redeemed.
  await coupon.locator(`time[datetime^="${today}T23:59:59"]`).waitFor();
  expect(await page.getByText('SPRING-2031').count()).toBe(0);
  // Who took a leaked one.
  const redemptions = page.getByRole('link', { name: 'Redemptions' });
  expect(await redemptions.getAttribute('href')).toBe('/operator/audit?type=coupon_redeemed');
  await coupon.getByRole('button', { name: 'Switch off' }).click();
  await dialog(page).getByText('This cannot be undone.').waitFor();
  await dialog(page).getByRole('button', { name: 'Switch off' }).click();
  await coupon.getByText('Off', { exact: true }).waitFor();

  await page.goto(`${portal.url}/operator/mail`);
  const withdrawn = page.getByRole('row').filter({ hasText: 'first@fabrikam.example' });
  await withdrawn.getByText('Dropped').waitFor();
  await withdrawn.getByRole('button').click();
  await dialog(page).getByText('its link was used, withdrawn or has expired').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('row').filter({ hasText: 'second@fabrikam.example' }).getByRole('button').click();
  await dialog(page)
    .getByText(/accept-invitation|accept-invite/)
    .waitFor();
  await close();
});

test('credit whose answer a proxy lost is visible at once, and whoever corrects its amount is told that it was granted', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, `/operator/organizations/${portal.world.people.tenantId}`);
  const tile = page.locator('dt', { hasText: 'Credit left' }).locator('xpath=following-sibling::dd').first();
  const credit = async () => Number((await tile.textContent())!.replace(/[$,]/g, ''));
  await tile.waitFor();
  const before = await credit();
  const granted: number[] = [];
  await page.route(
    '**/credits',
    async (route) => {
      granted.push((await route.fetch()).status());
      await route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1>' });
    },
    { times: 1 },
  );
  const amount = page.getByLabel('Amount in USD').first();
  const grant = page.getByRole('button', { name: 'Grant credit' });
  await amount.fill('100');
  await grant.click();
  await page.getByText('The gateway answered with status 502.').waitFor();
  expect(granted).toEqual([201]);
  await expect.poll(credit).toBeCloseTo(before + 100, 2);
  await amount.fill('10');
  await grant.click();
  await page.getByRole('alert').getByText('Your earlier attempt went through, though its answer was lost.').waitFor();
  expect(await credit()).toBeCloseTo(before + 100, 2);
  await close();
});

test('an operator creates a plan, edits it without fixing what it leaves open, and learns what it brings before putting an organization on it', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/plans');
  const plans = page.getByRole('table', { name: 'Plans' });
  const taken = (await plans.locator('code').first().textContent())!;
  await page.getByRole('button', { name: 'Create plan' }).click();
  await dialog(page).getByLabel('Name').fill('Team');
  // The API would take it for a change of that plan.
  await dialog(page).getByLabel('Code').fill(taken);
  await dialog(page).getByText('A plan with this code already exists.').waitFor();
  const save = dialog(page).getByRole('button', { name: 'Save plan' });
  expect(await save.isDisabled()).toBe(true);
  await dialog(page).getByLabel('Code').fill('No code');
  await save.click();
  await dialog(page)
    .getByRole('alert')
    .getByText(/^It does not match the pattern/)
    .waitFor();
  await dialog(page).getByLabel('Code').fill('team');
  await dialog(page).getByLabel('Requests / min').fill('many');
  await save.click();
  await dialog(page).getByText('It must be an integer.').waitFor();
  await dialog(page).getByLabel('Requests / min').fill('777');
  await dialog(page).getByLabel('Monthly credit').fill('12.5');
  await dialog(page).getByLabel('What else').fill('Support by mail\n\nInvoices by post');
  await save.click();
  const row = plans.getByRole('row').filter({ hasText: 'Team' });
  await row.getByText('777').waitFor();
  await row.getByText('Support by mail, Invoices by post').waitFor();

  await row.getByRole('button', { name: 'Edit Team' }).click();
  await dialog(page).getByText('more credit is given at once').waitFor();
  await dialog(page).getByLabel('Name').fill('Team Plus');
  const put = page.waitForRequest((one) => one.method() === 'PUT');
  await save.click();
  expect((await put).postDataJSON()).toEqual({
    name: 'Team Plus',
    payg_enabled: false,
    rate_limits: { requests_per_minute: 777 },
    monthly_credit_usd: 12.5,
    payment_terms_days: 30,
    features: ['Support by mail', 'Invoices by post'],
  });
  await row.getByText('Team Plus').waitFor();

  await goWithin(page, `/operator/organizations/${portal.world.otherOrganizationId}`);
  await page.getByLabel('Plan', { exact: true }).selectOption({ label: 'Team Plus' });
  // What it will bring is said before it is saved.
  const consequence = page.getByRole('status').filter({ hasText: 'no pay as you go' });
  await consequence.getByText('calls stop when no commitment or credit is left').waitFor();
  await consequence.getByText('$12.50').waitFor();
  expect(await page.getByLabel('Requests / min').getAttribute('placeholder')).toBe('777');
  await page.getByLabel('Requests / min').fill('778');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await consequence.waitFor({ state: 'detached' });
  // An emptied field returns to the plan's limit, not to the organization's own.
  await page.getByLabel('Requests / min').fill('');
  expect(await page.getByLabel('Requests / min').getAttribute('placeholder')).toBe('777');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page
    .locator('dt', { hasText: /^Plan$/ })
    .locator('xpath=following-sibling::dd')
    .getByText('Team Plus')
    .waitFor();
  await close();
});

test('an edit of a plan keeps what somebody else has changed of it since the form was opened', async () => {
  const { page, close } = await openPage(browser);
  await page.clock.install();
  const { token } = portal.world.people.operator;
  const put = (fields: object) =>
    portal.gateway.call('PUT', '/api/v1/admin/plans/shared', token, { name: 'Shared', payg_enabled: true, ...fields });
  await put({ monthly_credit_usd: 5 });
  await signIn(page, portal.url, users.operator, '/operator/plans');
  await page.getByRole('button', { name: 'Edit Shared' }).click();
  await dialog(page).getByLabel('Name').fill('Shared by all');
  await put({ monthly_credit_usd: 5, payg_enabled: false, rate_limits: { tokens_per_minute: 90_000 } });
  await page.clock.fastForward(5_000);
  await expect.poll(() => dialog(page).getByLabel('Tokens / min').inputValue()).toBe('90000');
  const sent = page.waitForRequest((one) => one.method() === 'PUT');
  await dialog(page).getByRole('button', { name: 'Save plan' }).click();
  expect((await sent).postDataJSON()).toEqual({
    name: 'Shared by all',
    payg_enabled: false,
    rate_limits: { tokens_per_minute: 90_000 },
    monthly_credit_usd: 5,
    payment_terms_days: 30,
    features: [],
  });
  await dialog(page).waitFor({ state: 'detached' });
  await close();
});

test('settings that are saved twice leave alone what somebody else has changed of the organization since they were opened', async () => {
  const { page, close } = await openPage(browser);
  const path = `/operator/organizations/${portal.world.otherOrganizationId}`;
  await signIn(page, portal.url, users.operator, path);
  await page.getByLabel('Requests / min').fill('900');
  const { token } = portal.world.people.operator;
  const theirs = await portal.gateway.call('PATCH', `/api/v1/admin${path.slice('/operator'.length)}`, token, {
    key_quota: 33,
    rate_limits: { concurrent_requests: 44 },
  });
  expect(theirs.status).toBe(200);
  const saved = async () => {
    const patch = page.waitForRequest((one) => one.method() === 'PATCH');
    await page.getByRole('button', { name: 'Save settings' }).click();
    return (await patch).postDataJSON();
  };
  expect(await saved()).toEqual({ rate_limits: { requests_per_minute: 900 } });
  await page.getByText('Settings saved.').first().waitFor();
  await page.getByLabel('Tokens / min').fill('90000');
  expect(await saved()).toEqual({ rate_limits: { tokens_per_minute: 90000 } });
  await expect.poll(() => page.getByLabel('Keys per user').inputValue()).toBe('33');
  expect(await page.getByLabel('Concurrent').inputValue()).toBe('44');
  await close();
});

test('an operator suspends an organization, all its members are told, and restores it, of which their open pages learn', async () => {
  const { page, close } = await openPage(browser);
  const member = await openPage(browser);
  await member.page.clock.install();
  await signIn(member.page, portal.url, users.member);
  await signIn(page, portal.url, users.operator, '/operator/organizations');
  await page.getByRole('table').getByRole('link', { name: 'Northwind Robotics' }).click();
  await page.getByRole('button', { name: 'Suspend' }).click();
  await dialog(page).getByLabel('Reason').fill('Unpaid');
  const { people } = portal.world;
  const suspend = `/api/v1/admin/organizations/${people.tenantId}/suspend`;
  await portal.gateway.call('POST', suspend, people.operator.token, { reason: 'By somebody else' });
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await page.getByText('Suspended since').waitFor();
  // The question stays the one that was asked: its button must not come to restore what it was to suspend.
  await dialog(page).getByRole('button', { name: 'Suspend' }).click();
  await page.getByText('Northwind Robotics was suspended.').first().waitFor();
  // They learn of it with the next page that they go to, and why what they try is refused, of a socket too.
  const banner = member.page.getByText('Northwind Robotics is suspended.');
  expect(await banner.count()).toBe(0);
  await member.page.clock.fastForward(15_000);
  await goWithin(member.page, '/playground?mode=transcribe');
  await banner.waitFor();
  const sound = {
    name: 'tone.wav',
    mimeType: 'audio/wav',
    buffer: Buffer.concat([wavHeader(48_000, 24_000), Buffer.alloc(48_000)]),
  };
  await member.page.getByLabel('Audio file').setInputFiles(sound);
  await member.page.getByRole('alert').getByText('Your organization is suspended.').waitFor();
  await goWithin(member.page, '/playground');
  await member.page.getByLabel('Message', { exact: true }).fill('Hello');
  await member.page.getByRole('button', { name: 'Send' }).click();
  await member.page
    .getByRole('alert')
    .getByText(/suspended/)
    .waitFor();
  expect(await member.page.getByLabel('Message', { exact: true }).inputValue()).toBe('Hello');
  await page.getByRole('button', { name: 'Restore' }).click();
  await dialog(page).getByRole('button', { name: 'Restore' }).click();
  await page.getByText('Suspended since').waitFor({ state: 'detached' });
  await member.page.clock.fastForward(10_000);
  await banner.waitFor({ state: 'detached' });
  await member.close();
  await close();
});

test('an operator sees an organization’s members, and deactivates them and makes operators after a confirmation', async () => {
  const { page, close } = await openPage(browser);
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/organizations/${tenantId}`);
  await page.getByRole('tab', { name: 'Members' }).click();
  const row = page.getByRole('table', { name: 'Members' }).getByRole('row').filter({ hasText: users.member.email });
  const choose = async (act: string) => {
    await row.getByRole('button', { name: `Actions for ${users.member.email}` }).click();
    await page.getByRole('menuitem', { name: act }).click();
    await dialog(page).getByRole('button', { name: act }).click();
  };
  await choose('Deactivate');
  await row.getByText('Deactivated').waitFor();
  await choose('Reactivate');
  await row.getByText('Active', { exact: true }).waitFor();
  await choose('Make operator');
  await row.getByText('Operator', { exact: true }).waitFor();
  await choose('Remove operator');
  await row.getByText('Operator', { exact: true }).waitFor({ state: 'detached' });
  await close();
});

test('a list sorts by its columns if it is complete, not if only one page would be in order', async () => {
  const { gateway } = portal;
  const login = await gateway.call('POST', '/api/v1/auth/login', '', users.operator);
  const makeCoupons = async (amounts: readonly number[]): Promise<void> => {
    for (const amount_usd of amounts) {
      const made = await gateway.call('POST', '/api/v1/admin/coupons', login.json.access_token, { amount_usd });
      expect(made.status).toBe(201);
    }
  };
  await makeCoupons([3, 1, 2]);
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/coupons');
  const table = page.getByRole('table', { name: 'Coupons' });
  await table.getByRole('button', { name: 'Amount' }).click();
  const amounts = (await table.locator('td[data-label="Amount"]').allTextContents()).map((text) =>
    Number(text.replace(/[^\d.]/g, '')),
  );
  expect(amounts.length).toBeGreaterThan(2);
  expect([amounts, amounts.toReversed()]).toContainEqual(amounts.toSorted((a, b) => a - b));

  await makeCoupons(Array.from({ length: 21 }, (_, index) => 1 + index));
  await page.reload();
  await page.getByRole('button', { name: 'Next' }).waitFor();
  expect(await table.getByRole('columnheader', { name: 'Amount' }).count()).toBe(1);
  expect(await table.getByRole('button', { name: 'Amount' }).count()).toBe(0);
  await close();
});

test('an operator finds the call of any organization by the request id that its client quotes', async () => {
  const { url, gateway } = portal;
  const history = '/api/v1/usage/history?scope=tenant&limit=1&success=true';
  const [call] = (await gateway.call('GET', history, await gateway.login(users.owner))).json.data;
  const { page, close } = await openPage(browser);
  await signIn(page, url, users.operator, '/operator/calls');
  await page.getByText('Paste a request id').waitFor();
  await page.getByLabel('Request id').fill(` ${call.request_id} `);
  const row = page.getByRole('table', { name: 'Calls' }).locator('tbody tr');
  await row.filter({ hasText: 'Northwind Robotics' }).filter({ hasText: 'Success' }).waitFor();
  await page.getByLabel('Request id').fill('req_0');
  await page.getByText('No call has this id').waitFor();
  await close();
});

test('an operator sees all calls of a key, as after a leak', async () => {
  const { url, gateway } = portal;
  const session = await gateway.login(users.owner);
  const { data: calls } = (await gateway.call('GET', '/api/v1/usage/history?limit=100', session)).json;
  const { data: keys } = (await gateway.call('GET', '/api/v1/api-keys?limit=100', session)).json;
  const { api_key_id } = calls.find((call: { api_key_id: string | null }) => call.api_key_id !== null);
  const { key_preview } = keys.find(({ id }: { id: string }) => id === api_key_id);
  const { page, close } = await openPage(browser);
  await signIn(page, url, users.operator, `/operator/keys?search=${key_preview}`);
  await page.getByRole('button', { name: /^Actions for/ }).click();
  const listed = page.waitForResponse(/\/admin\/calls\?/);
  await page.getByRole('menuitem', { name: 'Calls' }).click();
  const { data } = await (await listed).json();
  expect(new Set(data.map((call: { api_key_id: string | null }) => call.api_key_id))).toEqual(new Set([api_key_id]));
  await page.getByRole('heading', { name: `Calls of ${key_preview}` }).waitFor();
  const rows = page.getByRole('table', { name: 'Calls' }).locator('tbody tr');
  await expect.poll(() => rows.count()).toBeGreaterThan(10);
  expect(new Set(await rows.locator('td[data-label="Organization"]').allInnerTexts())).toEqual(
    new Set(['Northwind Robotics']),
  );
  await close();
});

test('an operator sees what a call used, and is led from it to its charge, which can be refunded, and to all calls of its key', async () => {
  const { url, gateway, world } = portal;
  const history = `/api/v1/usage/history?scope=tenant&limit=100&success=true&api_key_id=${world.keyId}`;
  const calls = (await gateway.call('GET', history, await gateway.login(users.owner))).json.data;
  const call = calls.find(({ cost_usd }: { cost_usd: number }) => cost_usd > 0);
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, url, users.operator, `/operator/calls?search=${call.request_id}`);
  await page.getByRole('button', { name: /^Request of/ }).click();
  const shown = dialog(page);
  await shown.getByRole('link', { name: users.owner.email }).waitFor();
  expect(await shown.textContent()).toMatch(/HTTP status200.*Input tokens[\d,]+/);
  await shown.getByRole('link', { name: 'Charge and refund' }).click();
  const charges = page.getByRole('table', { name: 'Transactions' }).locator('tbody tr');
  await charges.first().waitFor();
  // A charge leads to its call in turn.
  await charges.getByRole('link', { name: call.model }).click();
  await page.getByRole('button', { name: /^Request of/ }).waitFor();
  expect(new URL(page.url()).searchParams.get('search')).toBe(call.id);
  await page.goBack();
  await charges.first().waitFor();
  expect(await charges.locator('td[data-label="Description"]').allTextContents()).toEqual([call.model]);
  await charges.getByRole('button', { name: /^Refund \$/ }).click();
  await dialog(page).getByLabel('Reason').fill('It answered nonsense');
  await dialog(page).getByRole('button', { name: 'Refund', exact: true }).click();
  await page.getByText('was refunded as credit').first().waitFor();
  // The list is again that of all transactions, the refund among them.
  await page.getByRole('button', { name: 'Show all' }).click();
  await row(page, 'It answered nonsense').waitFor();
  await page.goBack();
  await page.getByRole('button', { name: /^Request of/ }).click();
  await shown.getByRole('link', { name: `…${world.keyId.slice(-8)}` }).click();
  const rows = page.getByRole('table', { name: 'Calls' }).locator('tbody tr');
  await expect.poll(() => rows.count()).toBeGreaterThan(10);
  expect(troubles).toEqual([]);
  await close();
});

test('an operator is led from a model to its calls of all organizations, of which the failed ones are picked, and from a deployment to its failures', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/models/acme/ember-2');
  const asked = async (act: () => Promise<unknown>) => {
    const answered = page.waitForResponse(/\/admin\/calls\?/);
    await act();
    const answer = await answered;
    return { query: new URL(answer.url()).searchParams, calls: (await answer.json()).data };
  };
  const all = await asked(() => page.getByRole('main').getByRole('link', { name: 'Calls', exact: true }).click());
  expect(new Set(all.calls.map(({ model }: { model: string }) => model))).toEqual(new Set(['acme/ember-2']));
  await page.getByRole('heading', { name: 'Calls of all organizations' }).waitFor();
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('acme/ember-2');
  const failed = await asked(() => page.getByLabel('Status', { exact: true }).selectOption('failed'));
  expect(failed.query.get('success')).toBe('false');
  expect(failed.calls.filter(({ success }: { success: boolean }) => success)).toEqual([]);
  const ofDays = await asked(() => page.getByLabel('From (UTC)').fill('2026-01-30'));
  expect([ofDays.query.get('start_date'), ofDays.query.get('end_date')]).toEqual(['2026-01-30', '2026-02-05']);
  // As it is opened from a link to it.
  const again = await asked(() => page.reload());
  expect(String(again.query)).toBe(String(ofDays.query));
  // A status that there is not narrows nothing, as the page shows it.
  const ofNone = await asked(() => goWithin(page, '/operator/calls?model=acme%2Fember-2&status=none'));
  expect(ofNone.query.has('success')).toBe(false);

  await goWithin(page, '/operator/models/acme/ember-2');
  const ofDeployment = await asked(() => page.getByRole('link', { name: 'Failed calls' }).first().click());
  expect(ofDeployment.query.get('deployment_id')).toMatch(/^[-\da-f]{36}$/);
  const narrowed = page.getByText('Only failed calls of the deployment');
  await narrowed.waitFor();
  // A call that is looked up is anybody's, of any time.
  const search = page.getByLabel('Request id');
  await asked(() => search.fill('req_0'));
  expect(await narrowed.count()).toBe(0);
  expect(await page.getByLabel('From (UTC)').isDisabled()).toBe(true);
  await search.fill('');
  await narrowed.waitFor();
  const status = page.getByLabel('Status', { exact: true });
  expect([await status.inputValue(), await status.isDisabled()]).toEqual(['failed', true]);
  const { query } = await asked(() => page.getByRole('button', { name: 'Show all' }).click());
  expect([query.has('deployment_id'), query.get('success')]).toEqual([false, 'false']);
  await close();
});

test('an operator is led from an organization to its keys and calls, and from a member to theirs', async () => {
  const { url, gateway, world } = portal;
  const member = await gateway.login(users.member);
  const { data: own } = (await gateway.call('GET', '/api/v1/api-keys?limit=100', member)).json;
  await gateway.call('POST', '/api/v1/api-keys', world.people.operator.token, { name: 'Of another organization' });
  const { page, close } = await openPage(browser);
  await signIn(page, url, users.operator, `/operator/organizations/${world.people.tenantId}`);
  await page.getByRole('main').getByRole('link', { name: 'Calls', exact: true }).click();
  await page.getByRole('heading', { name: 'Calls of Northwind Robotics' }).waitFor();
  const calls = page.getByRole('table', { name: 'Calls' }).locator('tbody tr');
  await calls.first().waitFor();
  await page.goBack();
  await page.getByRole('main').getByRole('link', { name: 'Jobs', exact: true }).click();
  await page.getByText('Only jobs of Northwind Robotics').waitFor();
  await page.goBack();
  const listed = page.waitForResponse(/\/admin\/keys\?/);
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByText('Only keys of Northwind Robotics').waitFor();
  const { data } = await (await listed).json();
  expect(new Set(data.map((key: { tenant_id: string }) => key.tenant_id))).toEqual(new Set([world.people.tenantId]));
  const previews = page.getByRole('table', { name: 'Keys' }).locator('tbody tr code');
  await expect.poll(() => previews.count()).toBeGreaterThan(own.length);
  await page.goBack();
  await page.getByRole('tab', { name: 'Members' }).click();
  await page.getByRole('button', { name: `Actions for ${users.member.email}` }).click();
  await page.getByRole('menuitem', { name: 'Calls' }).click();
  await page.getByText(`Only calls of ${users.member.email}`).waitFor();
  const from = page.getByLabel('From (UTC)');
  await from.fill(new Date().toISOString().slice(0, 10));
  await page.getByRole('searchbox', { name: 'Request id' }).fill('req_none');
  await page.getByText('No call has this id').waitFor();
  // It was looked for among all calls, so that the page must not say otherwise.
  expect([await page.getByText('Only calls of').count(), await from.inputValue(), await from.isDisabled()]).toEqual([
    0,
    '',
    true,
  ]);
  await page.goBack();
  await page.getByRole('button', { name: `Actions for ${users.member.email}` }).click();
  await page.getByRole('menuitem', { name: 'Keys' }).click();
  await page.getByText(`Only keys of ${users.member.email}`).waitFor();
  await expect
    .poll(() => previews.allTextContents())
    .toEqual(own.map(({ key_preview }: { key_preview: string }) => key_preview));
  const showAll = page.getByRole('button', { name: 'Show all' });
  // A list may be narrowed in two ways, each with such a button.
  const describes = await showAll.getAttribute('aria-describedby');
  expect(await page.locator(`[id="${describes}"]`).textContent()).toBe(`Only keys of ${users.member.email}`);
  await showAll.click();
  await expect.poll(() => previews.count()).toBeGreaterThan(own.length);
  expect(await page.getByRole('heading', { level: 1 }).evaluate((title) => title.matches(':focus'))).toBe(true);
  await close();
});

test('a status filter uses the same words as its list, and asks for the chosen one', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/jobs');
  const shownAndOffered = async (list: string) => {
    const rows = page.getByRole('table', { name: list });
    const statuses = rows.locator('td[data-label="Status"]');
    await statuses.first().waitFor();
    const shown = await statuses.allInnerTexts();
    const offered = await page.getByLabel('Status', { exact: true }).locator('option').allInnerTexts();
    return { shown: new Set(shown.map((text) => text.trim())), offered: new Set(offered) };
  };
  for (const [path, list] of [
    ['/operator/jobs', 'Jobs'],
    ['/operator/mail', 'Emails'],
    ['/operator/organizations', 'Organizations'],
  ] as const) {
    await goWithin(page, path);
    const { shown, offered } = await shownAndOffered(list);
    expect([...shown.difference(offered)], list).toEqual([]);
    const asked = page.waitForRequest(/\/api\/v1\/admin\/\w+\?.*status=\w/, { timeout: 5_000 });
    await page.getByLabel('Status', { exact: true }).selectOption({ index: 1 });
    await asked;
  }
  await close();
});

test('a status that no email has does not make the outbox look empty', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/mail?status=failed');
  await page.getByText('No emails match', { exact: true }).waitFor();
  await close();
});

test('lists that may grow long can be searched: models, mails and an organization’s people', async () => {
  const organization = `/operator/organizations/${portal.world.people.tenantId}`;
  const lists = [
    ['operator', '/operator/models', 'models', 'EMBER-70', 'acme/ember-70b'],
    ['operator', '/operator/mail', 'addresses', 'contoso', 'somebody@contoso.example'],
    ['operator', `${organization}?tab=members`, 'members', 'mia', 'member@example.com'],
    ['owner', '/organization', 'members', ' Mia Member ', 'member@example.com'],
  ] as const;
  for (const as of ['operator', 'owner'] as const) {
    const { page, close } = await openPage(browser);
    await signIn(page, portal.url, users[as]);
    for (const [, path, what, text, found] of lists.filter(([user]) => user === as)) {
      await goWithin(page, path);
      const rows = page.getByRole('main').locator('tbody tr');
      await rows.nth(2).waitFor();
      await page.getByRole('searchbox', { name: `Search ${what}` }).fill(text);
      await expect.poll(() => rows.count(), { message: path }).toBe(1);
      expect(await rows.innerText()).toContain(found);
      await page.getByRole('searchbox').fill('no such thing');
      await page.getByText(/^No (models|emails|members) match/).waitFor();
    }
    await close();
  }
});

test('the reason why a mail failed is in the list itself, since a touch screen shows no tooltips', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/admin/mail?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    Object.assign(list.data[0], { status: 'failed', last_error: '550 5.1.1 No such mailbox.' });
    await route.fulfill({ response: answer, json: list });
  });
  await signIn(page, portal.url, users.operator, '/operator/mail');
  await page.getByRole('row').getByText('550 5.1.1 No such mailbox.').waitFor();
  await close();
});

test('an operator sees who spends most, who is out of funds or overdue, and whose invoice a number is on', async () => {
  const { page, close } = await openPage(browser);
  const { invoiceNumber, people } = portal.world;
  const call = (method: 'GET' | 'POST' | 'PUT', path: string, body?: object) =>
    ok(portal.gateway, method, `/admin/${path}`, people.operator.token, body);
  const { organization } = await call('POST', 'organizations', { name: 'Litware', owner_email: 'a@litware.example' });
  await call('PUT', 'plans/upfront', { name: 'Upfront', payg_enabled: false });
  await call('PUT', `organizations/${organization.id}/plan`, { code: 'upfront' });
  await call('POST', `organizations/${organization.id}/suspend`, {});
  const [{ account }] = (await call('GET', `organizations?search=${people.tenantId}`)).data;
  await signIn(page, portal.url, users.operator, '/operator/organizations');
  const rows = page.getByRole('table', { name: 'Organizations', exact: true }).locator('tbody tr');
  const northwind = rows.filter({ hasText: 'Northwind Robotics' });
  const cell = (name: string) => northwind.locator(`td[data-label="${name}"]`);
  await northwind.waitFor();
  expect(await cell('Plan').innerText()).toBe('Developer');
  expect(await cell('Spent this month').innerText()).toBe(formatUsd(account.spent_usd));
  expect(await cell('Left').innerText()).toBe(`No limit\n${formatUsd(account.credit_usd)} credit`);
  expect(await cell('Unpaid').innerText()).toBe(formatUsd(account.receivable_usd));

  const names = () => rows.getByRole('link').allInnerTexts();
  await page.getByLabel('Status').selectOption('Out of funds');
  await expect.poll(names).toEqual(['Litware']);
  await rows.getByText('Suspended').waitFor();
  await rows.getByText('Out of funds').waitFor();
  await page.getByLabel('Status').selectOption('Most spend this month');
  await expect.poll(names).toEqual(['Northwind Robotics']);
  await page.getByLabel('Status').selectOption('Overdue invoices');
  await page.getByText('No organizations match').waitFor();
  await page.getByLabel('Status').selectOption('All statuses');
  await page.getByLabel('Search organizations').fill(` ${invoiceNumber}`);
  await expect.poll(names).toEqual(['Northwind Robotics']);
  await close();
});
