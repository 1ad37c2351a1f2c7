import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { asTableOwner } from '../support/people.ts';
import { waitFor } from '../support/wait-for.ts';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('an operator sees who did what by name, with one request for all rows', async () => {
  const { page, close } = await openPage(browser);
  const asked: string[] = [];
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (/^\/api\/v1\/admin\/(organizations|users)/.test(pathname)) asked.push(pathname);
  });
  await signIn(page, portal.url, users.operator, '/operator/keys');
  const keys = page.getByRole('table', { name: 'Keys' });
  await keys.getByRole('link', { name: 'Northwind Robotics' }).first().waitFor();
  for (const { email } of [users.owner, users.admin, users.member])
    await keys.getByRole('link', { name: email }).first().waitFor();
  await goWithin(page, '/operator/audit?type=organization_created');
  const events = page.getByRole('table', { name: 'Audit events' });
  const created = events.getByRole('row').filter({ hasText: 'organization_created' }).first();
  await created.filter({ hasText: users.operator.email }).waitFor();
  expect(await created.textContent()).not.toMatch(/…\w{8}/);
  // The people of each of the two pages, and the organizations of both.
  const [organizations, people] = ['/api/v1/admin/organizations', '/api/v1/admin/users'];
  expect(asked.toSorted()).toEqual([organizations, people, people]);
  await close();
});

test('the events of an organization that is not among the newest hundred are found from its page, with its name and its people’s', async () => {
  const { page, close } = await openPage(browser);
  const none = {
    data: [],
    pagination: { page: 1, limit: 100, total: 104, total_pages: 2, has_next: true, has_prev: false },
  };
  // As if a hundred others were newer than all that exist.
  await page.route(/\/admin\/(organizations|users)\?(?!.*(tenant_id|user_ids))/, (route) =>
    route.fulfill({ json: none }),
  );
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
  await page.route(/\/admin\/users\?(?!.*user_ids)/, async (route) => {
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

test('what happened to a key, and what somebody did, is one step from the key and from each of their events', async () => {
  const { url, gateway } = portal;
  const session = await gateway.login(users.owner);
  const key = await gateway.createKey(session, { name: 'Traced key' });
  const { status } = await gateway.call('PATCH', `/api/v1/api-keys/${key.id}`, session, { spend_cap_usd: 3 });
  expect(status).toBe(200);
  const { page, close } = await openPage(browser);
  const events = page.getByRole('table', { name: 'Audit events' });
  const shown = () => events.locator('td[data-label="Event"]').allInnerTexts();
  const ofKey = ['api_key_scope_updated', 'api_key_created'];
  await waitFor(
    async () => (await gateway.call('GET', `/api/v1/audit-events?target_id=${key.id}`, session)).json.data.length === 2,
    { description: 'the events of the key' },
  );
  await signIn(page, url, users.owner, `/keys/${key.id}`);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Audit events' }).click();
  await expect.poll(shown).toEqual(ofKey);
  // The key is named where its event says how.
  await events.getByRole('row').filter({ hasText: 'api_key_created' }).getByText('Traced key').first().waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await expect.poll(async () => (await shown()).length).toBeGreaterThan(2);
  await events.getByRole('link', { name: users.member.email }).first().click();
  await expect
    .poll(async () => new Set(await events.locator('td[data-label="By"]').allInnerTexts()))
    .toEqual(new Set([`User\n${users.member.email}\n127.0.0.1`]));
  await page.getByText(`Only events by ${users.member.email}`).waitFor();
  await close();

  const operator = await openPage(browser);
  await signIn(operator.page, url, users.operator, '/operator/keys?search=Traced');
  await operator.page.getByRole('button', { name: /^Actions for/ }).click();
  await operator.page.getByRole('menuitem', { name: 'Audit events' }).click();
  const seen = operator.page.getByRole('table', { name: 'Audit events' }).locator('td[data-label="Event"]');
  await expect.poll(() => seen.allInnerTexts()).toEqual(ofKey);
  await operator.close();
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
