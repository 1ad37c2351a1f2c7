import { readFileSync } from 'node:fs';
import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import { waitFor } from '../support/wait-for.ts';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

const keyPath = () => `/keys/${portal.world.keyId}`;

/** The queries of a page's analytics requests. */
function analyticsOf(page: Page): URLSearchParams[] {
  const queries: URLSearchParams[] = [];
  page.on('request', (request: Request) => {
    const url = new URL(request.url());
    if (url.pathname.endsWith('/analytics')) queries.push(url.searchParams);
  });
  return queries;
}

const bars = async (page: Page) => {
  const rows = page.locator('details table tr');
  return (await rows.allTextContents()).length;
};

test('eight tiles, four measures, the tables and no money', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, keyPath());
  await settled(page);
  await page.getByRole('table', { name: 'Recent Activity' }).waitFor();
  expect(await page.locator('dl dt').allTextContents()).toEqual(
    expect.arrayContaining([
      'Requests',
      'Success rate',
      'Failed requests',
      'Tokens per request',
      'Tokens',
      'Input tokens',
      'Output tokens',
      'Cached input tokens',
    ]),
  );
  expect(await page.getByRole('group', { name: 'Measure' }).getByRole('button').allTextContents()).toEqual([
    'Requests',
    'Tokens',
    'Input tokens',
    'Output tokens',
  ]);
  const activity = page.getByRole('table', { name: 'Recent Activity' }).getByRole('row');
  expect(await activity.count()).toBe(11);
  expect(await activity.nth(3).textContent()).toContain('rate_limit_exceeded');
  expect(await activity.nth(7).textContent()).toContain('Failed');
  // The restriction badge shows money, but is above the report; the report itself shows none.
  const report = await page
    .locator('main section')
    .evaluateAll((sections) => sections.slice(1).map((section) => section.textContent));
  expect(report.join(' ')).not.toContain('$');
  await close();
});

test('a key without requests has no success rate: 0% would say that all of them failed', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, `${keyPath()}?start=2001-01-01&end=2001-01-02`);
  for (const label of ['Success rate', 'Tokens per request']) {
    const tile = page.locator('dl > div').filter({ hasText: label }).first();
    await expect.poll(() => tile.textContent()).toBe(`${label}—No requests`);
  }
  await close();
});

test('what a key cost is one menu away from its analytics, which show no money', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, keyPath());
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Requests and costs' }).click();
  const requests = page.getByRole('table', { name: 'Requests' });
  await requests.locator('td[data-label="Cost"]').first().waitFor();
  expect(new Set(await requests.locator('td[data-label="Key"]').allTextContents())).toEqual(
    new Set(['Checkout production']),
  );
  await close();
});

test('the model filter narrows tiles and chart, never the Usage by model table', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, keyPath());
  const table = page.getByRole('table', { name: 'Usage by model' });
  await table.getByText('acme/ember-2').waitFor();
  const before = await table.textContent();
  const queries = analyticsOf(page);
  const narrowed = page.waitForResponse((response) => response.url().includes('model_name='));
  await page.getByLabel('Model', { exact: true }).selectOption('acme/ember-2');
  await narrowed;
  await settled(page);
  expect(queries.at(-1)?.get('model_name')).toBe('acme/ember-2');
  expect(await table.textContent()).toBe(before);
  await close();
});

test('the picker offers nothing above the maximum, and a change of granularity shortens the range to its maximum', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, keyPath());
  const range = page.getByRole('group', { name: 'Range' });
  const granularity = page.getByRole('group', { name: 'Granularity' });
  await granularity.getByRole('button', { name: 'Weekly' }).click();
  await range.getByRole('button', { name: '1 year' }).click();
  await settled(page);
  const queries = analyticsOf(page);
  await granularity.getByRole('button', { name: 'Daily' }).click();
  await settled(page);
  const daily = queries.at(-1)!;
  expect((Date.parse(daily.get('end_date')!) - Date.parse(daily.get('start_date')!)) / 86_400_000 + 1).toBe(90);
  expect(await range.getByRole('button', { name: '1 year' }).isDisabled()).toBe(true);
  await page.getByText('Latency and cache figures are computed for ranges of up to 31 days.').waitFor();
  await granularity.getByRole('button', { name: 'Hourly' }).click();
  await settled(page);
  const hourly = queries.at(-1)!;
  expect((Date.parse(hourly.get('end_date')!) - Date.parse(hourly.get('start_date')!)) / 86_400_000 + 1).toBe(7);
  expect(hourly.get('timezone')).toBeNull();
  expect(await range.getByRole('button', { name: '30 days' }).isDisabled()).toBe(true);
  await page.getByText('Hours in UTC').waitFor();
  await close();
});

test.each(['Pacific/Auckland', 'America/Los_Angeles'])('days and months are those of %s', async (timezoneId) => {
  const { page, close } = await openPage(browser, { timezoneId });
  await signIn(page, portal.url, users.owner, `${keyPath()}?granularity=daily&start=2026-03-01&end=2026-04-30`);
  await settled(page);
  await page.getByText(`Days in ${timezoneId}`).waitFor();
  await page.getByText('Show as a table').click();
  // Both zones change their clocks in these weeks; still each day appears once, under its own name.
  expect(await bars(page)).toBe(61);
  expect(await page.locator('details th').first().textContent()).toBe('Sun, Mar 1, 2026');
  expect(await page.locator('details th').last().textContent()).toBe('Thu, Apr 30, 2026');

  const queries = analyticsOf(page);
  await page.goto(`${portal.url}${keyPath()}?granularity=monthly&start=2025-11-01&end=2026-10-31`);
  await settled(page);
  await page.getByText('Show as a table').click();
  expect(await bars(page)).toBe(12);
  expect(await page.locator('details th').first().textContent()).toBe('November 2025');
  expect(new Set(queries.map((query) => query.get('timezone')))).toEqual(new Set([timezoneId]));
  // Months are made of daily reports of at most 90 days, and add up to what the tiles say.
  expect(queries.filter((query) => query.get('granularity') === 'daily')).toHaveLength(5);
  const values = (await page.locator('details td').allTextContents()).map((text) => Number(text.replaceAll(',', '')));
  const tile = await page
    .locator('dl > div', { hasText: /^Requests/ })
    .first()
    .getAttribute('title');
  expect(values.reduce((sum, value) => sum + value, 0)).toBe(Number(tile!.replaceAll(',', '')));
  await close();
});

test('a range that ends today still does when its days become those of UTC, though there it is another day', async () => {
  // Where the day is another one than in UTC at any hour of this test.
  const timezoneId = new Date().getUTCHours() < 10 ? 'Pacific/Pago_Pago' : 'Pacific/Kiritimati';
  const { page, close } = await openPage(browser, { timezoneId });
  await signIn(page, portal.url, users.owner, '/usage');
  const range = page.getByRole('group', { name: 'Range' });
  await range.getByRole('button', { name: '7 days' }).click();
  await page.getByRole('button', { name: 'use UTC, as invoices do' }).click();
  await page.getByText('Days in UTC').waitFor();
  expect(await page.getByLabel('To', { exact: true }).inputValue()).toBe(new Date().toISOString().slice(0, 10));
  expect(await range.getByRole('button', { name: '7 days' }).getAttribute('aria-pressed')).toBe('true');
  await page.goto(`${portal.url}/usage?start=2026-03-01&end=2026-03-31`);
  await page.getByRole('button', { name: 'use UTC, as invoices do' }).click();
  await page.getByText('Days in UTC').waitFor();
  expect(await page.getByLabel('To', { exact: true }).inputValue()).toBe('2026-03-31');
  await close();
});

test('the axis of a chart counts in whole steps, and shows the amounts of the smallest and largest bills whole', async () => {
  const { page, close } = await openPage(browser);
  let usage = { requests: 1, cost_usd: 0.0000044 };
  await page.route('**/api/v1/usage/report?*', async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    for (const bucket of json.buckets) Object.assign(bucket, usage);
    await route.fulfill({ response: answer, json });
  });
  // The labels of the y axis, each with its height, since a chart may be drawn twice.
  await page.addInitScript(`
    window.written = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      if (this.textAlign === 'right') window.written.push([text, x >= this.measureText(text).width, y]);
      return fillText.call(this, text, x, y);
    };
  `);
  await signIn(page, portal.url, users.owner, '/nothing-here');
  const labelsOf = async (measure: string): Promise<string[]> => {
    await page.goto(`${portal.url}/usage?measure=${measure}`);
    await expect.poll(() => page.evaluate<number>('window.written.length')).toBeGreaterThan(0);
    const written = await page.evaluate<[string, boolean, number][]>('window.written');
    expect(written.filter(([, isWhole]) => !isWhole)).toEqual([]);
    return [...new Map(written.map(([text, , y]) => [y, text])).values()];
  };
  expect(await labelsOf('requests')).toEqual(['0', '1']);
  expect(await labelsOf('cost_usd')).toContain('$0.000004');
  usage = { requests: 12, cost_usd: 1_234_567.5 };
  expect(await labelsOf('cost_usd')).toContain('$1.2M');
  await close();
});

test('times are local with UTC on hover', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'Pacific/Auckland' });
  await signIn(page, portal.url, users.owner, keyPath());
  const time = page.getByRole('table', { name: 'Recent Activity' }).locator('time').first();
  const iso = (await time.getAttribute('datetime'))!;
  const local = new Intl.DateTimeFormat('en-US', {
    timeZone: 'Pacific/Auckland',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(new Date(iso));
  expect(await time.textContent()).toContain(local);
  expect(await time.getAttribute('title')).toBe(`${iso.slice(0, 19).replace('T', ' ')} UTC`);
  await close();
});

test('figures that no longer match the selection are dimmed and not exported; other people’s are never shown', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage');
  await settled(page);
  let answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/usage/**', async (route) => {
    await answer.promise;
    await route.continue();
  });
  const byModel = page.getByRole('table', { name: 'Usage by model' });
  const busy = page.locator('main [aria-busy="true"]');
  const csv = page.getByRole('button', { name: 'CSV', exact: true });
  await page.getByRole('button', { name: '7 days' }).click();
  await busy.filter({ has: byModel }).waitFor();
  await expect.poll(() => page.evaluate("getComputedStyle(document.querySelector('main dl')).opacity")).toBe('0.5');
  expect(await csv.isDisabled()).toBe(true);
  answer.resolve();
  await settled(page);
  expect([await busy.count(), await csv.isDisabled()]).toEqual([0, false]);

  answer = Promise.withResolvers();
  await page.getByRole('button', { name: 'Organization', exact: true }).click();
  await page.getByText('By everyone in your organization.').waitFor();
  expect([await byModel.count(), await csv.isDisabled()]).toEqual([0, true]);
  answer.resolve();
  await byModel.waitFor();

  await goWithin(page, keyPath());
  await settled(page);
  answer = Promise.withResolvers();
  await page.getByLabel('Model', { exact: true }).selectOption('acme/ember-2');
  await busy.filter({ has: page.getByRole('table', { name: 'Recent Activity' }) }).waitFor();
  expect(await csv.isDisabled()).toBe(true);
  answer.resolve();
  await settled(page);
  expect(await csv.isDisabled()).toBe(false);
  await close();
});

test('after a change of granularity the numbers of a chart are those of its bars, and until then they keep their names', async () => {
  const { page, close } = await openPage(browser);
  const names = page.locator('main details th');
  for (const [path, next, unit] of [
    ['/usage', 'Monthly', /^\w{3}, \w{3} \d+, 20\d\d$/],
    [`${keyPath()}?granularity=hourly`, 'Daily', /UTC$/],
  ] as const) {
    await signIn(page, portal.url, users.owner, path);
    await settled(page);
    const answer = Promise.withResolvers<void>();
    await page.route(`**/api/v1/usage/**granularity=${next.toLowerCase()}**`, async (route) => {
      await answer.promise;
      await route.continue();
    });
    await page.getByRole('button', { name: next, exact: true }).click();
    await page.locator('main [aria-busy="true"]').first().waitFor();
    for (const name of await names.allTextContents()) expect(name).toMatch(unit);
    answer.resolve();
    await settled(page);
    const bars = await page.getByRole('img', { name: /a bar chart of/ }).getAttribute('aria-label');
    expect(await names.count()).toBe(Number(/of (\d+) buckets/.exec(bars!)![1]));
  }
  await close();
});

test('requests are filtered by a model and a key, and an exported file is about the people whom the page shows', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage?status=failed');
  const rows = page.getByRole('table', { name: 'Requests' });
  const cells = async (column: string) => new Set(await rows.locator(`td[data-label="${column}"]`).allTextContents());
  // From the number of a model's requests to these, whatever an earlier look at the list has left in the address.
  const ofModel = page.getByRole('row').filter({ hasText: 'acme/ember-2' }).getByRole('link');
  const count = await ofModel.textContent();
  await ofModel.click();
  await expect.poll(() => cells('Model')).toEqual(new Set(['acme/ember-2']));
  await expect.poll(() => rows.locator('tbody tr').count()).toBe(Number(count));
  await page.getByLabel('Key', { exact: true }).selectOption({ label: 'Nightly evaluation' });
  await page.getByText('No requests match these filters').waitFor();
  await page.getByLabel('Model', { exact: true }).selectOption('');
  await expect.poll(() => cells('Key')).toEqual(new Set(['Nightly evaluation']));

  const valuesIn = async (button: string, column: string) => {
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: button }).click();
    const lines = readFileSync(await (await download).path(), 'utf8')
      .trim()
      .split('\r\n');
    const place = lines[0]!.split(',').indexOf(column);
    return new Set(lines.slice(1).map((line) => line.split(',')[place]));
  };
  const usersIn = () => valuesIn('Export requests', 'user_id');
  expect(await valuesIn('CSV of this page', 'api_key_name')).toEqual(new Set(['Nightly evaluation']));
  expect(await valuesIn('Export requests', 'api_key_name')).toContain('Nightly evaluation');
  const { owner, admin, member } = portal.world.people;
  expect(await usersIn()).toEqual(new Set([owner.id]));
  await page.getByRole('button', { name: 'Organization', exact: true }).click();
  expect(await usersIn()).toEqual(new Set([owner.id, admin.id, member.id]));
  await close();
});

test('a number of requests of a user leads to these, among those of the organization, which can be narrowed to another’s', async () => {
  const { owner, member } = portal.world.people;
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage?by=user&model=acme%2Fember-2');
  const row = page.getByRole('table', { name: 'Usage by user' }).getByRole('row');
  const requests = row.filter({ hasText: users.member.email }).getByRole('link');
  const count = await requests.textContent();
  await requests.click();
  const listed = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
  await expect.poll(() => listed.count()).toBe(Number(count));
  await listed.first().getByRole('button').click();
  await page.getByRole('dialog').getByText(users.member.email).waitFor();
  await page.keyboard.press('Escape');
  const user = page.getByLabel('User', { exact: true });
  expect(await user.inputValue()).toBe(member.id);
  const next = page.waitForResponse(/\/usage\/history\?/);
  await user.selectOption({ label: users.owner.email });
  const whose = (await (await next).json()).data.map((event: { user_id: string }) => event.user_id);
  expect(new Set(whose)).toEqual(new Set([owner.id]));
  // One's own are not narrowed by it.
  await page.getByRole('button', { name: 'Mine', exact: true }).click();
  await user.waitFor({ state: 'detached' });
  await close();
});

test('whoever wonders why a call failed is two clicks from its id, its HTTP status and its cost, with a mouse or a keyboard', async () => {
  const { page, close } = await openPage(browser);
  // With a filter that an earlier look at the list has left in the address.
  await signIn(page, portal.url, users.owner, '/usage?model=acme%2Fember-8b%3Afast');
  const failed = page.getByRole('link', { name: /^\d+ failed$/ });
  const count = Number.parseInt((await failed.textContent())!, 10);
  await failed.press('Enter');
  // As after one with an unknown model, which appears in no list.
  await page.getByText('refused before').waitFor();
  const rows = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
  await expect.poll(() => rows.count()).toBe(count);
  expect(await rows.getByText('Success').count()).toBe(0);
  await rows.filter({ hasText: 'upstream_timeout' }).first().getByRole('button').press('Enter');
  const shown = page.getByRole('dialog', { name: 'Request' });
  await shown.getByText(/^req_/).waitFor();
  expect(await shown.textContent()).toMatch(/upstream_timeout.*HTTP status502.*Cost\$0\.00/);
  await page.keyboard.press('Escape');
  await page.getByLabel('Status', { exact: true }).selectOption('Success');
  await expect.poll(() => rows.getByText('Success').count()).toBeGreaterThan(count);
  await close();
});

test('an admin is led from a request to its charge, from there to the request again, and back to all transactions; a member, who sees none, is not', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin, '/usage?by=request&scope=tenant&status=success');
  const open = page.getByRole('button', { name: /^Request of/ });
  const model = await page.locator('td[data-label="Model"]').nth(3).textContent();
  await open.nth(3).click();
  const cost = page.getByRole('dialog').locator('dt', { hasText: 'Cost' }).locator('xpath=following-sibling::dd');
  const paid = await cost.textContent();
  await page.getByRole('dialog').getByRole('link', { name: 'Show charge' }).click();
  const charges = page.getByRole('table', { name: 'Transactions' }).locator('tbody tr');
  await charges.first().waitFor();
  const shown = async (column: string) => charges.locator(`td[data-label="${column}"]`).allTextContents();
  expect([await shown('Description'), await shown('Amount')]).toEqual([[model], [`\u2212${paid}`]]);
  await charges.getByRole('link').click();
  await expect.poll(() => open.count()).toBe(1);
  await open.click();
  expect(await cost.textContent()).toBe(paid);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.goBack();
  await page.getByRole('button', { name: 'Show all' }).click();
  await expect.poll(() => charges.count()).toBeGreaterThan(1);
  expect(new URL(page.url()).search).toBe('?tab=transactions');
  await close();

  const member = await openPage(browser);
  await signIn(member.page, portal.url, users.member, '/usage?by=request&status=success');
  await member.page
    .getByRole('button', { name: /^Request of/ })
    .first()
    .click();
  await member.page.getByRole('dialog').getByText(/^req_/).waitFor();
  expect(await member.page.getByRole('dialog').getByRole('link').count()).toBe(0);
  await member.close();
});

test('a request is found by its id, of whatever day and key, and one that is not there says where was searched', async () => {
  const { url, gateway } = portal;
  const session = await gateway.login(users.member);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const { headers } = await gateway.call('POST', '/v1/chat/completions', session, chat);
  const requestId = headers.get('x-request-id')!;
  const history = `/api/v1/usage/history?request_id=${requestId}`;
  await waitFor(async () => (await gateway.call('GET', history, session)).json.data.length === 1, {
    description: 'the call in the usage',
  });

  const { page, close } = await openPage(browser);
  // A range and a model without this request.
  await signIn(page, url, users.member, '/usage?by=request&start=2026-01-01&end=2026-01-02&model=other');
  await page.getByText('No requests match these filters').waitFor();
  await page.getByLabel('Request id').fill(` ${requestId} `);
  await page.getByRole('button', { name: /^Request of/ }).click();
  await page.getByRole('dialog').getByText(requestId).waitFor();
  await page.keyboard.press('Escape');
  await page.getByLabel('Request id').fill('req_0');
  await page.getByText('Searched: your own requests.').waitFor();
  await page.getByLabel('Request id').fill('');
  await page.getByText('No requests match these filters').waitFor();
  await close();
});

test('a looked-up request names its key, also in its file, though that has no usage in the range, and the filters, which it need not meet, are off meanwhile', async () => {
  const { url, gateway, world } = portal;
  const history = '/api/v1/usage/history?scope=tenant&limit=500';
  const { data } = (await gateway.call('GET', history, world.people.owner.token)).json;
  const { request_id } = data.find((event: { api_key_id: string }) => event.api_key_id === world.keyId);
  const { page, close } = await openPage(browser);
  // A range without any request of this key, and a filter by one that has none either.
  const filters = `start=2026-02-01&end=2026-02-02&key=${world.teammatesKeyId}&status=failed`;
  await signIn(page, url, users.owner, `/usage?by=request&scope=tenant&${filters}`);
  await page.getByText('No requests match these filters').waitFor();
  const [key, status] = [page.getByLabel('Key', { exact: true }), page.getByLabel('Status')];
  await page.getByLabel('Request id').fill(request_id);
  const found = page.getByRole('table', { name: 'Requests' }).locator('td[data-label="Key"]');
  await expect.poll(() => found.allTextContents()).toEqual(['Checkout production']);
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV of this page' }).click();
  expect(readFileSync(await (await download).path(), 'utf8')).toMatch(
    /,Checkout production,sk-proj-\w{4}\.\.\.\w{4}\r\n/,
  );
  const chosen = async () => [await key.inputValue(), await status.inputValue()];
  expect([await key.isDisabled(), await status.isDisabled(), await chosen()]).toEqual([true, true, ['', '']]);
  await page.getByLabel('Request id').fill('');
  await page.getByText('No requests match these filters').waitFor();
  expect([await key.isDisabled(), await chosen()]).toEqual([false, [world.teammatesKeyId, 'failed']]);
  await close();
});

test('a request id that the API refuses can be corrected', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/usage?by=request');
  await page.getByLabel('Request id').fill('x'.repeat(300));
  await page.getByRole('alert').getByText('at most 255 characters').waitFor();
  await page.getByLabel('Request id').fill('');
  await page
    .getByRole('button', { name: /^Request of/ })
    .first()
    .waitFor();
  await close();
});

test('a deleted key and a teammate’s key are shown by their names, two of one name also by their previews, and an admin finds whose a key is by its preview, and its analytics', async () => {
  const { url, gateway } = portal;
  const session = await gateway.login(users.member);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const made = async (name: string) => {
    const key = await gateway.createKey(session, { name });
    expect((await gateway.call('POST', '/v1/chat/completions', key.key, chat)).status).toBe(200);
    return key;
  };
  const live = await made('Zebra crossing');
  const twins = [await made('Twin peaks'), await made('Twin peaks')];
  const retired = await made('Apron strings');
  expect((await gateway.call('DELETE', `/api/v1/api-keys/${retired.id}`, session)).status).toBe(204);
  const history = `/api/v1/usage/history?api_key_id=${retired.id}`;
  await waitFor(async () => (await gateway.call('GET', history, session)).json.data.length === 1, {
    description: 'the call in the usage',
  });

  const { page, close } = await openPage(browser);
  await signIn(page, url, users.owner, '/usage?by=key&scope=tenant');
  const rows = page.getByRole('table', { name: 'Usage by key' });
  await rows.getByText('Apron strings (deleted)', { exact: true }).waitFor();
  await rows.getByText('Zebra crossing', { exact: true }).waitFor();
  const preview = ({ key }: { key: string }) => `${key.slice(0, 12)}...${key.slice(-4)}`;
  await rows
    .getByRole('row')
    .filter({ hasText: preview(live) })
    .filter({ hasText: users.member.email })
    .waitFor();
  // By the names shown there, not by the ids behind them.
  await rows.getByRole('button', { name: 'Key' }).click();
  const shown = await rows.locator('[data-label="Key"] > div > :first-child').allTextContents();
  expect(shown.length).toBeGreaterThan(3);
  expect(shown).toEqual(shown.toSorted());
  await rows.getByRole('link', { name: 'Zebra crossing' }).click();
  await page.getByRole('table', { name: 'Recent Activity' }).getByText('Success').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Zebra crossing' }).waitFor();
  const header = page.locator('main header').first();
  await header.getByText(`${preview(live)} · ${users.member.email}`).waitFor();
  await page.getByRole('link', { name: 'Requests and costs' }).click();
  await page.getByRole('table', { name: 'Requests' }).getByText('Zebra crossing').waitFor();
  await page.goBack();
  // Who can end its calls at once.
  await page.getByRole('link', { name: 'deactivate them' }).click();
  await page.getByRole('button', { name: `Deactivate ${users.member.email}` }).waitFor();
  expect(await page.getByRole('table', { name: 'Members' }).locator('tbody tr').count()).toBe(1);
  await goWithin(page, '/usage?by=request&scope=tenant');
  await page.getByRole('table', { name: 'Requests' }).getByText('Apron strings (deleted)').waitFor();
  const filter = page.getByLabel('Key', { exact: true });
  for (const twin of twins) await filter.selectOption({ label: `Twin peaks (${preview(twin)})` });
  // In a file each has a column of its own, by which a spreadsheet can group: the name is the same for both.
  await page.getByRole('table', { name: 'Requests' }).getByRole('row').nth(1).waitFor();
  await expect.poll(() => page.getByRole('table', { name: 'Requests' }).locator('tbody tr').count()).toBe(1);
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV of this page' }).click();
  const lines = readFileSync(await (await download).path(), 'utf8').split('\r\n');
  expect(lines[0]).toMatch(/,api_key_name,api_key_preview$/);
  expect(lines[1]).toMatch(new RegExp(`,Twin peaks,${preview(twins[1]!)}$`));
  await filter.selectOption({ label: 'Zebra crossing' });
  await goWithin(page, `/keys/${retired.id}`);
  await page.getByRole('heading', { level: 1, name: 'Apron strings' }).waitFor();
  await header.getByText('Deleted').waitFor();

  await signIn(page, url, users.member, `/keys/${retired.id}`);
  await page.getByRole('heading', { level: 1, name: 'Apron strings' }).waitFor();
  expect(await header.textContent()).toContain(preview(retired));
  await page.getByText('This key was deleted').waitFor();
  await close();
});

test('the page of a teammate’s key says that it is active, expired or revoked, and how to stop it only while it works', async () => {
  const { url, gateway, world } = portal;
  const session = await gateway.login(users.member);
  const made = (name: string, fields = {}) => gateway.createKey(session, { name, ...fields });
  const expired = await made('Trial', { expires_at: new Date(Date.now() + 1_000).toISOString() });
  const revoked = await made('Leaked');
  const revocation = `/api/v1/admin/keys/${revoked.id}/revoke`;
  expect((await gateway.call('POST', revocation, world.people.operator.token)).status).toBe(200);
  const shownAs = [
    [await made('In use'), 'Active', 'which only they can change or delete'],
    [
      revoked,
      'Revoked',
      'The platform’s operator has revoked this key of a teammate, so every call with it is refused.',
    ],
    [expired, 'Expired', 'This key of a teammate has expired, so every call with it is refused.'],
  ] as const;
  const { page, close } = await openPage(browser);
  await signIn(page, url, users.owner);
  for (const [{ id }, status, sentence] of shownAs) {
    await goWithin(page, `/keys/${id}`);
    await page.getByText(sentence).waitFor();
    await page.locator('main header').first().getByText(status, { exact: true }).waitFor();
    expect(await page.getByRole('link', { name: 'deactivate them' }).count()).toBe(status === 'Active' ? 1 : 0);
  }
  await close();
});

test('requests filtered by a key without any in their range name that key, whosever it is, without the names of all others being read', async () => {
  const { url, gateway } = portal;
  const unused = await gateway.createKey(await gateway.login(users.member), { name: 'Spare wheel' });
  const { page, close } = await openPage(browser);
  const lists: string[] = [];
  page.on('request', (request) => {
    if (new URL(request.url()).pathname === '/api/v1/api-keys') lists.push(request.url());
  });
  await signIn(page, url, users.owner, `/usage?by=request&scope=tenant&key=${unused.id}`);
  await page.getByText('No requests match these filters').waitFor();
  const filter = page.getByLabel('Key', { exact: true });
  await expect.poll(() => filter.locator('option:checked').textContent()).toBe('Spare wheel');
  expect(lists).toEqual([]);
  await close();
});

test('the page of a teammate’s key reads its analytics once, and keeps its name while another range is read', async () => {
  const { page, close } = await openPage(browser);
  const asked: string[] = [];
  page.on('request', (request) => {
    if (request.url().includes('/analytics')) asked.push(new URL(request.url()).search);
  });
  await signIn(page, portal.url, users.admin, keyPath());
  await page.getByText(`· ${users.owner.email}`).waitFor();
  await page.getByRole('table', { name: 'Recent Activity' }).waitFor();
  expect(asked).toHaveLength(1);
  const days = Promise.withResolvers<void>();
  await page.route('**/analytics?granularity=weekly*', async (route) => {
    await days.promise;
    await route.fallback();
  });
  await page.getByRole('button', { name: 'Weekly' }).click();
  await expect.poll(() => asked.length).toBe(2);
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Checkout production');
  days.resolve();
  await page.getByText('at most 365 days').waitFor();
  await close();
});

test('an admin is not told to deactivate the owner whose key it is, which the API refuses', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin, keyPath());
  await page.getByText(`· ${users.owner.email}`).waitFor();
  await page.getByText('Only an owner can have all calls with their keys refused').waitFor();
  expect(await page.getByRole('link', { name: 'deactivate them' }).count()).toBe(0);
  await close();
});
