import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asTableOwner } from '../support/people.ts';
import { goWithin, launchBrowser, openPage, signIn } from './support/browser.ts';
import { type Portal, startPortal, users } from './support/portal.ts';

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

const dialog = (page: Page) => page.getByRole('dialog');

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

  // Its owner can be invited again, for instance if the address was wrong.
  await page.getByRole('tab', { name: 'Invitations' }).click();
  const first = page.getByRole('row').filter({ hasText: 'first@fabrikam.example' });
  await first.getByRole('button', { name: 'Withdraw' }).click();
  await first.getByText('withdrawn').waitFor();
  await page.getByRole('button', { name: 'Invite someone' }).click();
  await dialog(page).getByLabel('Email').fill('second@fabrikam.example');
  await dialog(page).getByLabel('Role').selectOption('Owner');
  await dialog(page).getByRole('button', { name: 'Send invitation' }).click();
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
  await coupon.getByRole('button', { name: 'Switch off' }).click();
  await dialog(page).getByText('This cannot be undone.').waitFor();
  await dialog(page).getByRole('button', { name: 'Switch off' }).click();
  await coupon.getByText('Off', { exact: true }).waitFor();

  await page.goto(`${portal.url}/operator/mail`);
  await page.getByRole('row').filter({ hasText: 'first@fabrikam.example' }).getByRole('button').click();
  await dialog(page)
    .getByText(/accept-invitation|accept-invite/)
    .waitFor();
  await close();
});

test('credit whose answer a proxy lost is granted once, though the operator tries again', async () => {
  const { page, close } = await openPage(browser);
  const organization = `/operator/organizations/${portal.world.people.tenantId}`;
  await signIn(page, portal.url, users.operator, organization);
  const granted: number[] = [];
  await page.route('**/credits', async (route) => {
    const response = await route.fetch();
    granted.push(response.status());
    if (granted.length > 1) return route.fulfill({ response });
    return route.fulfill({ status: 504, contentType: 'text/html', body: '<h1>Gateway time-out</h1>' });
  });
  await page.getByLabel('Amount in USD').first().fill('7.77');
  await page.getByRole('button', { name: 'Grant credit' }).click();
  await page.getByText('The gateway answered with status 504.').waitFor();
  await page.getByRole('button', { name: 'Grant credit' }).click();
  await page.getByText('Credit granted.', { exact: true }).waitFor();
  expect(granted).toEqual([201, 201]);
  await page.goto(`${portal.url}${organization}?tab=transactions`);
  await page.getByText('$7.77').first().waitFor();
  expect(await page.getByRole('row').filter({ hasText: '$7.77' }).count()).toBe(1);
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

test('an operator creates a plan, edits it without fixing what it leaves open, and puts an organization on it', async () => {
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
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page
    .locator('dt', { hasText: /^Plan$/ })
    .locator('xpath=following-sibling::dd')
    .getByText('Team Plus')
    .waitFor();
  await close();
});

test('an operator suspends an organization, all its members are told, and restores it', async () => {
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

test('an operator sees who did what by name, with one request for all rows', async () => {
  const { page, close } = await openPage(browser);
  const askedOneByOne: string[] = [];
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/api/v1/admin/organizations/')) askedOneByOne.push(pathname);
  });
  await signIn(page, portal.url, users.operator, '/operator/keys');
  await page.getByRole('table', { name: 'Keys' }).getByRole('link', { name: 'Northwind Robotics' }).first().waitFor();
  await goWithin(page, '/operator/audit?type=organization_created');
  const events = page.getByRole('table', { name: 'Audit events' });
  const created = events.getByRole('row').filter({ hasText: 'organization_created' }).first();
  await created.filter({ hasText: users.operator.email }).waitFor();
  expect(await created.textContent()).not.toMatch(/…\w{8}/);
  expect(askedOneByOne).toEqual([]);
  await close();
});

test('the events of an organization that is not among the newest hundred are found from its page, with its name and its people’s', async () => {
  const { page, close } = await openPage(browser);
  const none = {
    data: [],
    pagination: { page: 1, limit: 100, total: 104, total_pages: 2, has_next: true, has_prev: false },
  };
  // As if a hundred others were newer than all that exist.
  await page.route(/\/admin\/(organizations|users)\?(?!.*tenant_id)/, (route) => route.fulfill({ json: none }));
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/organizations/${tenantId}`);
  await page.getByRole('link', { name: 'Show events' }).click();
  const chain = page.getByLabel('Chain');
  await chain.getByRole('option', { name: 'Northwind Robotics' }).waitFor({ state: 'attached' });
  expect(await chain.inputValue()).toBe(tenantId);
  // The list says that it is not complete.
  expect(await chain.getByRole('option', { name: 'Others: “Show events” on their pages' }).isDisabled()).toBe(true);
  const events = page.getByRole('table', { name: 'Audit events' }).getByRole('row');
  await events.filter({ hasText: users.owner.email }).filter({ hasText: 'Northwind Robotics' }).first().waitFor();
  await close();
});

test('who did something is shown by name, even if a hundred others come before them in the list of people', async () => {
  const { page, close } = await openPage(browser);
  await page.route(/\/admin\/users\?.*limit=100/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), data: [] } });
  });
  await signIn(page, portal.url, users.operator, '/operator/audit?type=organization_created');
  const actor = page.getByRole('table', { name: 'Audit events' }).locator('td[data-label="By"]');
  await actor.filter({ hasText: users.operator.email }).first().waitFor({ timeout: 10_000 });
  await close();
});

test('an operator has the audit chains verified, and is told the first event that differs from what was recorded', async () => {
  const { page, close } = await openPage(browser);
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, '/operator/audit');
  const verify = page.getByRole('button', { name: 'Verify' });
  await verify.click();
  await page.getByText(/The chain is intact: \d+ events?\./).waitFor();
  await goWithin(page, `/operator/organizations/${tenantId}`);
  await verify.click();
  const whole = page.getByText(/The chain is intact: \d+ events\./);
  const [wholeCount] = /\d+/.exec((await whole.textContent())!)!;

  // A chain with more events than one call reads, according to the first answer.
  await page.route('**/audit-events/verification?*after_sequence=0*', (route) =>
    route.fulfill({
      json: { is_whole: null, events_checked: 2, first_broken_sequence: null, next_after_sequence: 2 },
    }),
  );
  const goesOn = page.waitForRequest(/verification\?.*after_sequence=2/);
  await verify.click();
  await goesOn;
  await page.getByText(`The chain is intact: ${wholeCount} events.`).waitFor();
  await page.unrouteAll();

  // As only the owner of the table could: the gateway's own role may not.
  const changed = `update audit_events set actor_ip = '192.0.2.66' where tenant_id = '${tenantId}' and sequence = 3`;
  expect((await asTableOwner({ database: { url: portal.gateway.env.databaseUrl! } }, changed)).rowCount).toBe(1);
  await verify.click();
  await page
    .getByText(/The chain is broken at event 3: it was changed, moved or removed\. \d+ events checked\./)
    .waitFor();
  await page.getByRole('link', { name: 'Show event 3' }).click();
  const events = page.getByRole('table', { name: 'Audit events' });
  await events.filter({ hasText: '192.0.2.66' }).waitFor();
  expect(await events.locator('td[data-label="No."]').allInnerTexts()).toEqual(['3\nNorthwind Robotics']);
  // The event before it, by hand; and the whole list again.
  await page.getByLabel('Event number').fill('2');
  await expect.poll(() => events.locator('td[data-label="No."]').allInnerTexts()).toEqual(['2\nNorthwind Robotics']);
  await page.getByLabel('Chain', { exact: true }).selectOption({ label: "The platform's own" });
  await page.getByLabel('Event number').fill('1');
  await expect.poll(() => events.locator('td[data-label="No."]').allInnerTexts()).toEqual(['1\nPlatform']);
  await goWithin(page, '/operator/audit');
  await verify.click();
  await page.getByText('The chain is intact').waitFor();
  await close();
});

test('every kind of audit event can be filtered by, and so can days', async () => {
  const { page, close } = await openPage(browser);
  const { operator, owner } = portal.world.people;
  const held = async (path: string, token: string): Promise<Set<string>> => {
    const { json } = await portal.gateway.call('GET', `/api/v1${path}?limit=100`, token);
    expect(json.data.length).toBeGreaterThan(0);
    return new Set(json.data.map(({ type }: { type: string }) => type));
  };
  const offered = async (on: Page): Promise<Set<string>> =>
    new Set(await on.getByLabel('Event', { exact: true }).locator('option').allTextContents());
  const events = page.getByRole('table', { name: 'Audit events' });
  await signIn(page, portal.url, users.operator, '/operator/audit');
  await events.waitFor();
  expect([...(await held('/admin/audit-events', operator.token)).difference(await offered(page))]).toEqual([]);
  await page.getByLabel('Event', { exact: true }).selectOption('model_granted');
  await expect
    .poll(async () => [...new Set(await events.locator('td[data-label="Event"]').allTextContents())])
    .toEqual(['model_granted']);
  await page.getByLabel('To (UTC)').fill('2001-01-02');
  await page.getByText('No events match').waitFor();
  const own = await openPage(browser);
  await signIn(own.page, portal.url, users.owner, '/audit');
  await own.page.getByRole('table', { name: 'Audit events' }).waitFor();
  const ownOffered = await offered(own.page);
  expect([...(await held('/audit-events', owner.token)).difference(ownOffered)]).toEqual([]);
  expect(ownOffered.has('model_granted')).toBe(false);
  await own.close();
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

test('a status filter uses the same words as its list', async () => {
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
  }
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
