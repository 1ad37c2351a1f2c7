import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { seriousFindings } from './support/axe.ts';
import { dialog, goWithin, openPage, row, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok } from './support/world/people.ts';

sharePortal();

const nano = (text: string | null): bigint => BigInt(Math.round(Number(text!.replace(/[$,]/g, '')) * 1e9));

test('the amounts shown on an invoice add up to its total, and it says what is due and for which days', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'America/Los_Angeles' });
  await signIn(page, portal.url, users.owner, `/billing/invoices/${portal.world.invoiceId}`);
  const lines = page.getByRole('table', { name: 'Line items' }).getByRole('row');
  await lines.nth(1).waitFor();
  const amounts = await lines.locator('td:last-child').allTextContents();
  const fact = (name: string) => page.locator('dt', { hasText: name }).locator('xpath=following-sibling::dd').first();
  const sum = amounts.reduce((total, amount) => total + nano(amount), 0n);
  expect(nano(await fact('Subtotal').textContent())).toBe(sum);
  const total = nano(await fact('Total').last().textContent());
  expect(sum + nano(await fact('Paid from commitment and credit').textContent())).toBe(total);
  const toPay = nano(await fact('Amount due, rounded up to a whole cent').textContent());
  expect([toPay % 10_000_000n, toPay >= total, toPay - total < 10_000_000n]).toEqual([0n, true, true]);
  // A month's period ends with its last day, in UTC.
  expect(await fact('Period').textContent()).toMatch(/^\w+ 1, \d{4} – \w+ (28|29|30|31), \d{4} \(UTC\)$/);
  await close();
});

test('usage says in which time zone its days are cut, since an invoice’s month is in UTC', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'America/Los_Angeles' });
  await signIn(page, portal.url, users.owner, '/usage?start=2026-10-01&end=2026-10-31&scope=tenant');
  await page.getByText('Days in America/Los_Angeles (use UTC, as invoices do) · at most 90 days').waitFor();
  await page.getByRole('button', { name: 'Weekly' }).click();
  await page.getByText('at most 365 days').waitFor();
  await close();
});

test('what an invoice’s page leads to is of its UTC month, by everyone, and adds up to its subtotal: the requests, and what each key cost', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'Pacific/Auckland' });
  // Calls that were charged late are those of an earlier month.
  await page.route('**/documents/invoices/*', async (route) => {
    const response = await route.fetch();
    const { line_items, ...invoice } = await response.json();
    const late = line_items.findLast(({ model }: { model: string }) => model === 'acme/ember-70b');
    late.usage_month = '2026-02';
    await route.fulfill({ response, json: { ...invoice, line_items } });
  });
  await signIn(page, portal.url, users.admin, `/billing/invoices/${portal.world.invoiceId}`);
  const subtotal = await page
    .locator('dt', { hasText: 'Subtotal' })
    .locator('xpath=following-sibling::dd')
    .textContent();
  const exported = async (button: string) => {
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: button }).click();
    const text = readFileSync(await (await download).path(), 'utf8');
    const [head, ...rows] = text
      .trim()
      .split('\r\n')
      .map((line) => line.split(','));
    const cost = head!.indexOf('cost_usd');
    expect(rows.reduce((total, row) => total + nano(row[cost]!), 0n)).toBe(nano(subtotal));
    return { head, rows };
  };
  await exported('Export requests');
  const lines = page.getByRole('table', { name: 'Line items' }).getByRole('link', { name: /ember-70b/ });
  expect(await lines.last().getAttribute('href')).toContain('start=2026-02-01&end=2026-02-28');
  await lines.first().click();
  await page.getByText('Days in UTC (use Pacific/Auckland)').waitFor();
  await page.getByRole('table', { name: 'Requests' }).waitFor();
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('acme/ember-70b');
  await page.goBack();
  await page.getByRole('link', { name: 'Usage by key' }).click();
  await page.getByText('Days in UTC (use Pacific/Auckland) · at most 365 days').waitFor();
  const { head, rows } = await exported('Export by month');
  expect(head!.slice(0, 4)).toEqual(['start', 'end', 'api_key_id', 'api_key_name']);
  expect(rows.map((row) => row[3]).toSorted()).toEqual(['', 'Checkout production', 'Nightly evaluation']);
  const tile = page.locator('dt', { hasText: 'Cost' }).locator('xpath=..');
  expect(nano(await tile.getAttribute('title'))).toBe(nano(subtotal));
  await close();
});

test('an invoice shows each quantity to its last digit, in the units of the price next to it, and names what is counted once', async () => {
  const { invoiceId, people } = portal.world;
  const { json } = await portal.gateway.call(
    'GET',
    `/api/v1/billing/documents/invoices/${invoiceId}`,
    people.owner.token,
  );
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, `/billing/invoices/${invoiceId}`);
  const quantities = page.getByRole('table', { name: 'Line items' }).locator('td[data-label="Quantity"]');
  await quantities.first().waitFor();
  const shown = (await quantities.allTextContents()).map((text) => text.replaceAll(',', ''));
  expect(shown).toEqual(
    json.line_items.map(({ quantity, unit }: { quantity: number; unit: string }) =>
      unit.startsWith('million_') ? `${quantity} million` : `${quantity}`,
    ),
  );
  expect(shown.some((text) => text.endsWith(' million'))).toBe(true);
  await close();
});

test('an amount keeps its minus on a phone: what credit paid of an invoice is on one line', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  const { invoiceId } = portal.world;
  await page.route(`**/documents/invoices/${invoiceId}`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), credits_usd: 3.5 } });
  });
  await signIn(page, portal.url, users.owner, `/billing/invoices/${invoiceId}`);
  const paid = page.locator('dt:has-text("Paid from commitment and credit") + dd');
  await paid.waitFor();
  expect(await paid.textContent()).toBe('\u2212$3.50');
  const line = page.locator('dt:has-text("Subtotal") + dd [title]');
  expect((await paid.locator('[title]').boundingBox())!.height).toBe((await line.boundingBox())!.height);
  await close();
});

test('the decimal points of amounts are aligned, in tables and among the totals of an invoice, and copies have only the amounts', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, `/billing/invoices/${portal.world.invoiceId}`);
  await page.getByRole('table', { name: 'Line items' }).waitFor();
  const spreadOf = (amounts: string) => `(() => {
    const points = [...document.querySelectorAll('${amounts}')].map((amount) => {
      const text = document.createTreeWalker(amount, 4).nextNode();
      const point = document.createRange();
      point.setStart(text, text.data.indexOf('.'));
      return point.getBoundingClientRect().left;
    });
    return Math.max(...points) - Math.min(...points);
  })()`;
  const amounts = '[aria-label="Line items"] td[data-label="Amount"]';
  const shown = await page.locator(amounts).allTextContents();
  expect(new Set(shown.map((text) => text.split('.')[1]!.length)).size).toBeGreaterThan(1);
  expect(await page.evaluate(spreadOf(amounts))).toBeLessThan(0.5);
  expect(await page.evaluate(spreadOf('main dl:last-child dd'))).toBeLessThan(0.5);
  await page.evaluate(`getSelection().selectAllChildren(document.querySelector('[aria-label="Line items"] tbody'))`);
  const copied = String(await page.evaluate('getSelection().toString()'));
  expect(copied.split(/\s+/)).toEqual(expect.arrayContaining(shown));
  await close();
});

test('the credit left after a transaction is shown to the last digit, as its amount is', async () => {
  const { people } = portal.world;
  const credits = `/admin/organizations/${people.tenantId}/credits`;
  const wallet = await ok(portal.gateway, 'GET', '/billing/wallet', people.owner.token);
  await ok(portal.gateway, 'POST', credits, people.operator.token, { amount_usd: 0.123456789, description: 'Odd' });
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions');
  const cells = row(page, 'Odd').locator('td[data-label="Amount"], td[data-label="Credit left"]');
  await cells.first().waitFor();
  expect(await cells.allTextContents()).toEqual(['$0.123456789', `$${(wallet.balance_usd + 0.123456789).toFixed(9)}`]);
  await close();
});

test('an invoice prints in black on white, without the header of phones and what is there to be pressed, whatever theme its reader chose', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript("localStorage.setItem('theme', 'dark')");
  await page.route(`**/documents/invoices/${portal.world.invoiceId}/transactions?*`, async (route) => {
    const response = await route.fetch();
    const { data, pagination } = await response.json();
    await route.fulfill({ response, json: { data, pagination: { ...pagination, total_pages: 2, has_next: true } } });
  });
  await signIn(page, portal.url, users.owner, `/billing/invoices/${portal.world.invoiceId}`);
  await page.getByRole('table', { name: 'Line items' }).waitFor();
  await page.getByRole('button', { name: 'Next page' }).waitFor();
  const scheme = () => page.evaluate('getComputedStyle(document.documentElement).colorScheme');
  expect(await scheme()).toBe('dark');
  await page.setViewportSize({ width: 794, height: 1123 });
  await page.getByRole('button', { name: 'Open navigation' }).waitFor();
  await page.emulateMedia({ media: 'print' });
  expect(await scheme()).toBe('light');
  for (const pressed of [
    page.getByRole('button', { name: /^(Open navigation|Export requests|PDF of .*|CSV of this page|Next page)$/ }),
    page.getByRole('link', { name: 'Invoices' }),
  ]) {
    expect(await pressed.count()).toBe(0);
  }
  expect(await page.getByRole('table', { name: 'Line items' }).isVisible()).toBe(true);
  expect(await page.getByText('pending').isVisible()).toBe(true);
  expect(await page.getByText('Page 1 of 2 ·').isVisible()).toBe(true);
  await close();
});

test('a chart prints in the colours for paper, whatever theme its reader chose, and no row of a list is cut', async () => {
  const { page, close } = await openPage(browser, { colorScheme: 'dark' });
  await signIn(page, portal.url, users.owner, '/usage?by=request');
  await page.getByRole('img', { name: /^Cost: a bar chart/ }).waitFor();
  /** The colour of most of what is drawn: that of the bars. */
  const colour = () =>
    page.evaluate(`(() => {
      const canvas = document.querySelector('.uplot canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const counts = new Map();
      for (let at = 0; at < data.length; at += 4) {
        const colour = data.slice(at, at + 3).join();
        if (data[at + 3] === 255) counts.set(colour, (counts.get(colour) ?? 0) + 1);
      }
      return [...counts].sort(([, one], [, other]) => other - one)[0]?.[0];
    })()`);
  await expect.poll(colour).toBe('98,210,187');
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await expect.poll(colour).toBe('11,101,86');
  expect(
    await page
      .getByRole('row')
      .last()
      .evaluate((row) => row.ownerDocument.defaultView!.getComputedStyle(row).breakInside),
  ).toBe('avoid');
  await close();
});

test('an operator finds the invoices of an organization, and marks one as paid, by a payment if they name it, or voids it after a confirmation', async () => {
  const { page, close } = await openPage(browser);
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/organizations/${tenantId}?tab=invoices&payment=pending`);
  const { invoiceNumber } = portal.world;
  const row = page.getByRole('table', { name: 'Invoices' }).getByRole('row').filter({ hasText: invoiceNumber });
  await row.getByText('pending').waitFor();
  await settled(page);
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByRole('button', { name: `Void ${invoiceNumber}` }).click();
  await dialog(page).getByText('This cannot be undone.').waitFor();
  await page.keyboard.press('Escape');
  // Nothing was done, and the focus is where it was.
  const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
  await expect.poll(focused).toBe(`Void ${invoiceNumber}`);
  await page.getByRole('button', { name: `Mark as paid: ${invoiceNumber}` }).click();
  const payment = dialog(page).getByLabel('Payment ID');
  await payment.fill('pi 1');
  await payment.press('Enter');
  await dialog(page).getByText('without spaces').waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  // Somebody else was quicker, and those to be paid are read again without it: why it was refused can still be read.
  await page.route('**/invoices**', (route) => {
    const list = {
      data: [],
      pagination: { page: 1, limit: 20, total: 0, total_pages: 0, has_next: false, has_prev: false },
    };
    const error = { message: 'It was paid before.', code: 'conflict', param: null };
    return route.fulfill(route.request().method() === 'GET' ? { json: list } : { status: 409, json: { error } });
  });
  await payment.fill('pi_0');
  await payment.press('Enter');
  await page.getByText('No invoices match').waitFor();
  await dialog(page).getByText('It was paid before.').waitFor();
  await page.keyboard.press('Escape');
  await page.unroute('**/invoices**');
  await page.getByLabel('Payment', { exact: true }).selectOption('All invoices');
  await page.getByRole('button', { name: `Mark as paid: ${invoiceNumber}` }).click();
  await payment.fill(' pi_1 ');
  await dialog(page).getByRole('button', { name: 'Mark as paid' }).click();
  await row.getByText('paid', { exact: true }).waitFor();
  expect(await row.getByRole('button').count()).toBe(0);
  await page.getByRole('tab', { name: 'Transactions' }).click();
  await page.getByText('Payment pi_1').first().waitFor();
  await close();
});

test('an operator sees an invoice of an organization as its payers do, with the same PDF', async () => {
  const { invoiceNumber, people } = portal.world;
  const shown = async (as: 'owner' | 'operator', path: string) => {
    const { page, close } = await openPage(browser);
    await signIn(page, portal.url, users[as], path);
    await page.getByRole('link', { name: invoiceNumber }).click();
    await page.getByRole('heading', { level: 1, name: invoiceNumber }).waitFor();
    await settled(page);
    expect(await seriousFindings(page)).toEqual([]);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: `PDF of ${invoiceNumber}` }).click();
    const pdf = readFileSync(await (await download).path());
    const sections = await page.locator('main section').allTextContents();
    await page.getByRole('link', { name: 'Invoices' }).click();
    await page.getByRole('table', { name: 'Invoices' }).waitFor();
    await close();
    return { sections, start: pdf.subarray(0, 5).toString() };
  };
  const seen = await shown('operator', `/operator/organizations/${people.tenantId}?tab=invoices`);
  expect(seen.sections.join()).toContain('Line items');
  expect(seen.start).toBe('%PDF-');
  expect(seen).toEqual(await shown('owner', '/billing?tab=invoices'));
});

test('invoices are filtered by days, both for those who pay them and for operators', async () => {
  const { owner, tenantId } = portal.world.people;
  const { json } = await portal.gateway.call('GET', '/api/v1/billing/documents/invoices', owner.token);
  const [newest, older] = json.data.map((invoice: { period_start: string }) => invoice.period_start.slice(0, 10));
  expect(json.data.length).toBeGreaterThan(2);
  for (const [as, path] of [
    ['owner', '/billing?tab=invoices'],
    ['operator', `/operator/organizations/${tenantId}?tab=invoices`],
  ] as const) {
    const { page, close } = await openPage(browser);
    await signIn(page, portal.url, users[as], path);
    const months = page.getByRole('table', { name: 'Invoices' }).locator('td[data-label="Month"]');
    await expect.poll(() => months.count()).toBe(json.data.length);
    await page.getByLabel('From (UTC)').fill(older);
    await expect.poll(() => months.count()).toBe(2);
    await page.getByLabel('To (UTC)').fill(older);
    await expect.poll(() => months.count()).toBe(1);
    await page.goto(`${portal.url}${path}&start=${newest}`);
    await expect.poll(() => months.count()).toBe(1);
    await page.goto(`${portal.url}${path}&end=2001-01-02`);
    await page.getByText('No invoices match').waitFor();
    await close();
  }
});

test('transactions are filtered by days, which stay in the address, and no request is made for a half-typed year', async () => {
  const { page, close } = await openPage(browser);
  const path = '/api/v1/billing/documents/transactions';
  const { data } = (await portal.gateway.call('GET', `${path}?limit=1`, portal.world.people.owner.token)).json;
  const day: string = data[0].occurred_at.slice(0, 10);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions');
  const row = page.getByRole('table', { name: 'Transactions' }).getByRole('row').nth(1);
  await row.waitFor();
  const asked: (string | null)[] = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === path) asked.push(searchParams.get('end_date'));
  });
  await page.getByLabel('To (UTC)').focus();
  await page.keyboard.type('01022001');
  await page.getByText('No transactions match').waitFor();
  expect(asked).toEqual(['2001-01-02']);
  await page.getByLabel('To (UTC)').fill('');
  await page.getByLabel('From (UTC)').fill(day);
  await row.waitFor();
  await page.reload();
  await row.waitFor();
  expect(await page.getByLabel('From (UTC)').inputValue()).toBe(day);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click();
  const [head, ...rows] = readFileSync(await (await saved).path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  const all = (await portal.gateway.call('GET', `${path}?start_date=${day}&limit=1`, portal.world.people.owner.token))
    .json;
  expect(head).toMatch(/^\ufeffid,occurred_at,type,/);
  expect(rows).toHaveLength(all.pagination.total);
  expect(new URL(page.url()).searchParams.get('start')).toBe(day);
  await close();
});

test('a link to the charge of a call that the API refuses still leads to all transactions, and filters outlast what they find', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions&call=mangled');
  await page.getByText('This could not be loaded').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click({ timeout: 5_000 });
  await page.getByRole('table', { name: 'Transactions' }).getByRole('row').nth(1).waitFor();
  await goWithin(page, '/billing?tab=transactions&type=mangled');
  await page.getByText('This could not be loaded').waitFor();
  await page.getByLabel('Type', { exact: true }).selectOption('usage');
  await page.getByRole('table', { name: 'Transactions' }).getByRole('row').nth(1).waitFor();
  await close();
});

test('a charge names the model that was called', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions&type=usage');
  const what = page.getByRole('table', { name: 'Transactions' }).locator('td[data-label="Description"]');
  await what.first().waitFor();
  const { json } = await portal.gateway.call('GET', '/api/v1/models', portal.world.people.owner.token);
  const models = new Set(json.data.map(({ id }: { id: string }) => id));
  for (const text of await what.allInnerTexts()) expect(models).toContain(text);
  await close();
});

test('an operator exports all transactions of a filter, and refunds a charge once, after reading what that does, and the organization sees why', async () => {
  const { page, close } = await openPage(browser);
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/organizations/${tenantId}?tab=transactions&type=usage`);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click({ timeout: 5_000 });
  const lines = readFileSync(await (await saved).path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  const charges = `/api/v1/admin/organizations/${tenantId}/transactions?type=usage&limit=1`;
  const { json } = await portal.gateway.call('GET', charges, portal.world.people.operator.token);
  expect(lines).toHaveLength(1 + json.pagination.total);
  const refund = page.getByRole('table', { name: 'Transactions' }).getByRole('button', { name: 'Refund' }).first();
  await refund.click();
  await dialog(page).getByText('This cannot be undone.').waitFor();
  const act = dialog(page).getByRole('button', { name: 'Refund' });
  expect(await act.isDisabled()).toBe(true);
  await dialog(page).getByLabel('Reason').fill('The answer was empty');
  await dialog(page).getByLabel('Amount in USD').fill('a lot');
  await act.click();
  await dialog(page).getByText('It must be a number.').waitFor();
  await dialog(page).getByLabel('Amount in USD').fill('');
  await act.click();
  await dialog(page).waitFor({ state: 'detached' });
  await refund.click();
  await dialog(page).getByLabel('Reason').fill('Once more');
  await act.click();
  await dialog(page).getByText('Nothing is left of the charge to refund.').waitFor();
  const owner = await openPage(browser);
  await signIn(owner.page, portal.url, users.owner, '/billing?tab=transactions&type=refund');
  await owner.page.getByRole('row').filter({ hasText: 'The answer was empty' }).waitFor();
  expect(await owner.page.getByRole('button', { name: 'Refund' }).count()).toBe(0);
  await owner.close();
  await close();
});

test('an operator sees an organization’s commitments, records another for later, and ends it since it was wrong', async () => {
  const { page, close } = await openPage(browser);
  const { tenantId } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/organizations/${tenantId}?tab=commitments`);
  const rows = page.getByRole('table', { name: 'Commitments' }).getByRole('row');
  await rows.filter({ hasText: 'In force' }).filter({ hasText: '$500.00' }).waitFor();
  await page.getByLabel('Amount in USD').fill('80');
  await page.getByRole('button', { name: 'Record commitment' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('From (UTC)').fill('2097-01-01');
  await page.getByLabel('Until (not included)').fill('2098-01-01');
  await page.getByRole('button', { name: 'Record commitment' }).click();
  const later = rows.filter({ hasText: 'Jan 1, 2097 – Dec 31, 2097' });
  await later.getByText('Upcoming').waitFor();
  expect(await later.locator('td[data-label="Left"]').textContent()).toBe('$80.00');
  await page.getByRole('button', { name: 'End the commitment of $80.00' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End' }).click();
  await rows.filter({ hasText: 'Ended' }).filter({ hasText: '$80.00' }).waitFor();
  expect(await page.getByRole('button', { name: 'End the commitment of $80.00' }).count()).toBe(0);
  expect(await page.getByRole('button', { name: 'End the commitment of $500.00' }).count()).toBe(1);
  await close();
});
