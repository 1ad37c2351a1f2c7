import { expect, test } from 'vitest';
import { goWithin, openPage, row, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test.each([
  ['behind', -3_600_000],
  ['ahead', 3_600_000],
])(
  'on a computer whose clock is an hour %s, keys were used in the past and a model that still serves has not retired',
  async (_, offMs) => {
    const { page, close } = await openPage(browser);
    await page.clock.install({ time: Date.now() + offMs });
    const { model } = portal.world;
    await page.route(`**/api/v1/models/${encodeURIComponent(model)}`, async (route) => {
      const answer = await route.fetch();
      const sunset_at = new Date(Date.now() + 1_800_000).toISOString();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), sunset_at } });
    });
    await signIn(page, portal.url, users.owner, '/keys');
    const lastUse = row(page, 'Checkout production').locator('td[data-label="Last used"]');
    expect(await lastUse.textContent()).toMatch(/^(\d+ minutes? ago|just now)$/);
    await goWithin(page, `/models/${encodeURIComponent(model)}`);
    await page.getByText(/^Retiring · /).waitFor();
    expect(await page.getByText(/^Retiring · /).textContent()).toBe('Retiring · less than a day left');
    await close();
  },
);

test('a voided invoice asks for no payment, neither on its page nor in the lists', async () => {
  const { people, invoiceId, invoiceNumber } = portal.world;
  const organization = `/admin/organizations/${people.tenantId}`;
  const path = `/api/v1${organization}/invoices/${invoiceId}/void`;
  expect((await portal.gateway.call('POST', path, people.operator.token, {})).status).toBe(200);
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, `/billing/invoices/${invoiceId}`);
  await page.getByText('Voided: no payment is due').waitFor();
  expect(await page.getByText('Not yet').count()).toBe(0);
  await goWithin(page, '/billing?tab=invoices');
  const due = row(page, invoiceNumber).locator('td[data-label="Due"]');
  expect(await due.textContent()).toBe('—');
  await close();
});

test('the page of a retired model says so, and offers neither to try the model nor to load it again', async () => {
  const { operator, owner } = portal.world.people;
  const { call } = portal.gateway;
  const sunset_at = new Date(Date.now() + 1_000).toISOString();
  const dated = await call('PATCH', '/api/v1/admin/retirements/acme%2Fspark', operator.token, { sunset_at });
  expect(dated.status).toBe(200);
  await expect.poll(async () => (await call('GET', '/api/v1/models/acme%2Fspark', owner.token)).status).toBe(410);
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/models/acme%2Fspark');
  await page.getByText(/was retired on/).waitFor();
  await page.getByText('No longer available').waitFor();
  expect(await page.getByText(/^Try (it|again)$/).count()).toBe(0);
  await goWithin(page, '/operator/models/acme%2Fspark');
  await page.getByText('Retired', { exact: true }).waitFor();
  expect(await page.getByText(/^Retiring/).count()).toBe(0);
  await close();
});

test('a job that was cancelled before its turn never started, and one that is not found is said to be gone after a day, or somebody else’s', async () => {
  const { page, close } = await openPage(browser);
  const { jobId } = portal.world;
  await page.route(`**/api/v1/jobs/${jobId}`, async (route) => {
    const answer = await route.fetch();
    const job = { ...(await answer.json()), status: 'cancelled', started_at: null, completed_at: null, result: null };
    await route.fulfill({ response: answer, json: { ...job, cancelled_at: job.created_at } });
  });
  await signIn(page, portal.url, users.owner, `/jobs/${jobId}`);
  await page.getByText('Cancelled').waitFor();
  const started = page.locator('dt', { hasText: 'Started' }).locator('xpath=following-sibling::dd').first();
  expect(await started.textContent()).toBe('Never');
  await goWithin(page, '/jobs/job_01a21b16d0a071eaa108599929266bbd');
  await page.getByText('A job and its result are deleted 24 hours after it ends.').waitFor();
  // As one of somebody else looks to whoever was sent its address.
  await page.getByText('Nobody else’s jobs can be seen.').waitFor();
  await close();
});

test('a suspended organization’s people read who can restore it, and its operator gets there', async () => {
  const { operator } = portal.world.people;
  const { call } = portal.gateway;
  const { tenant_id } = (await call('GET', '/api/v1/profile', operator.token)).json;
  const path = `/api/v1/admin/organizations/${tenant_id}`;
  expect((await call('POST', `${path}/suspend`, operator.token, { reason: 'A rehearsal' })).status).toBe(200);
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/');
  await page.getByText('Only an operator of the platform can restore it').waitFor();
  await page.getByRole('link', { name: 'Restore it' }).click();
  await page.getByText('A rehearsal').waitFor();
  expect((await call('POST', `${path}/restore`, operator.token, {})).status).toBe(200);
  await close();
});

test('the page of a model without a price says when it is refused, and who can set one', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/models/studio%2Fpaint');
  await page.getByText(/^No price is set\. Until an operator sets one, .* refused/).waitFor();
  await close();
});

test('on a computer whose clock is an hour ahead, a new price begins with the rates in force, not with upcoming ones', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { token } = portal.world.people.operator;
  const model = 'acme/soon-dearer';
  await call('POST', '/api/v1/admin/models', token, { name: model, operations: ['chat_completions'] });
  const effective_from = new Date(Date.now() + 1_800_000).toISOString();
  for (const price of [{ per_request_usd: 1 }, { per_request_usd: 2, effective_from }]) {
    await call('POST', '/api/v1/admin/prices', token, { model, ...price });
  }
  await page.clock.install({ time: Date.now() + 3_600_000 });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  await page.getByText('Upcoming').waitFor();
  await page.getByRole('button', { name: 'Set price' }).click();
  expect(await page.getByRole('dialog').getByLabel('Request').inputValue()).toBe('1');
  await close();
});
