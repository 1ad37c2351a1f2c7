import { expect, test } from 'vitest';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('the page of a list is kept in the address: a reload and Back return to it, and another filter or tab starts at the first', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions');
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByText(/^Page 2 of/).waitFor();
  const first = await page.getByRole('row').nth(1).textContent();
  await page.reload();
  await page.getByText(/^Page 2 of/).waitFor();
  expect(await page.getByRole('row').nth(1).textContent()).toBe(first);
  await page.getByRole('link', { name: 'Limits' }).click();
  await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
  await page.goBack();
  await page.getByText(/^Page 2 of/).waitFor();
  await page.getByRole('tab', { name: 'Invoices' }).click();
  await page.getByRole('table', { name: 'Invoices' }).waitFor();
  expect(new URL(page.url()).search).toBe('?tab=invoices');

  await signIn(page, portal.url, users.owner, '/usage?by=request');
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByText(/^Page 2 of/).waitFor();
  await page.getByRole('button', { name: '7 days' }).click();
  await page
    .getByText(/^Page 1 of|No requests/)
    .or(page.getByRole('table', { name: 'Requests' }))
    .first()
    .waitFor();
  expect(new URL(page.url()).searchParams.get('page')).toBeNull();
  await close();
});

test('of thousands of rows that are all loaded a hundred are shown at a time, sorted among all; another range begins with the first', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/usage/summary?*', async (route) => {
    const response = await route.fetch();
    const summary = await response.json();
    const [key] = summary.by_api_key;
    const by_api_key = Array.from({ length: 3_000 }, (_, index) => ({
      ...key,
      api_key_id: `key-${index}`,
      api_key_name: `Key ${index}`,
      requests: index,
    }));
    await route.fulfill({ response, json: { ...summary, by_api_key } });
  });
  await signIn(page, portal.url, users.owner, '/usage?by=key');
  const table = page.getByRole('table', { name: 'Usage by key' });
  const pager = page.getByRole('navigation', { name: 'Pages' });
  await pager.getByText('Page 1 of 30 · 3,000 in total').waitFor();
  expect(await table.getByRole('rowheader').count()).toBe(100);
  await page.getByRole('button', { name: 'Next page' }).click();
  await table.getByText('Key 199').waitFor();
  await page.getByRole('status').filter({ hasText: 'Usage by key: 3,000, page 2 of 30' }).waitFor();
  await table.getByRole('button', { name: 'Requests' }).click();
  await pager.getByText('Page 1 of 30').waitFor();
  await table.getByRole('rowheader').first().filter({ hasText: 'Key 2999' }).waitFor();
  await page.getByRole('button', { name: 'Next page' }).click();
  await pager.getByText('Page 2 of 30').waitFor();
  await page.getByRole('button', { name: '7 days' }).click();
  await pager.getByText('Page 1 of 30').waitFor();
  await close();
});

test('a page that no longer exists leads to the last one, not to a list that seems empty', async () => {
  const { page, close } = await openPage(browser);
  for (const path of ['/keys?page=7', '/billing?tab=transactions&page=900', '/operator/organizations?page=3']) {
    await signIn(page, portal.url, path.startsWith('/operator') ? users.operator : users.owner, path);
    await page.getByRole('row').nth(1).waitFor();
    await settled(page);
    expect(await page.getByRole('row').count(), path).toBeGreaterThan(1);
  }
  await close();
});

test('an address that asks for something that does not exist, or not for this user, leads to what there is', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization?tab=zzz');
  await page.getByRole('table', { name: 'Members' }).waitFor();
  await page.getByRole('tab', { name: 'Members', selected: true }).waitFor();
  // An admin's link, followed by a member.
  await signIn(page, portal.url, users.member, '/usage?scope=tenant&by=user');
  await page.getByText('By your own keys and in the playground.').waitFor();
  await page.getByRole('tab', { name: 'By model', selected: true }).waitFor();
  await settled(page);
  expect(await page.getByRole('alert').count()).toBe(0);
  await close();
});

test('the page of a key that is not one’s own says so: its figures may be zeros because there is no such key', async () => {
  const { page, close } = await openPage(browser);
  const said = page.getByText('None of your keys has this id.');
  await signIn(page, portal.url, users.owner, '/keys/no-such-key');
  await page.getByText('Requests').first().waitFor();
  expect(await said.count()).toBe(1);
  await goWithin(page, `/keys/${portal.world.keyId}`);
  await page.getByRole('heading', { level: 1, name: 'Checkout production' }).waitFor();
  expect(await said.count()).toBe(0);
  await close();
});

test('a model that does not exist is not offered for a try, and the playground says that it shows another', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/models/gone');
  await page.getByText('does not exist').waitFor();
  expect(await page.getByRole('link', { name: 'Try it' }).count()).toBe(0);
  await goWithin(page, '/playground?model=gone');
  await page.getByText('You cannot use a model called gone here. Another one is selected.').waitFor();
  await page.getByLabel('Model', { exact: true }).selectOption({ index: 1 });
  await expect.poll(() => page.getByText('You cannot use a model').count()).toBe(0);
  await close();
});

test('transactions are filtered by a type, which is kept in the address', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=transactions&page=2');
  await page.getByLabel('Type').selectOption('purchase');
  const rows = page.getByRole('table', { name: 'Transactions' }).getByRole('row');
  await expect.poll(() => rows.getByText('usage', { exact: true }).count()).toBe(0);
  await rows.getByText('Card payment').waitFor();
  expect(new URL(page.url()).search).toBe('?tab=transactions&type=purchase');
  await page.reload();
  await rows.getByText('Card payment').waitFor();
  expect(await page.getByLabel('Type').inputValue()).toBe('purchase');
  await page.getByLabel('Type').selectOption('expiry');
  await page.getByText('No transactions match').waitFor();
  await close();
});

test('a range too wide for days is shortened to what they allow, and returns with weeks', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage?granularity=weekly');
  await page.getByRole('button', { name: '1 year' }).click();
  const from = page.getByLabel('From');
  const year = await from.inputValue();
  await page.getByRole('button', { name: 'Daily' }).click();
  await settled(page);
  expect(await page.getByText('This could not be loaded').count()).toBe(0);
  const days =
    (Date.parse(await page.getByLabel('To').inputValue()) - Date.parse(await from.inputValue())) / 86_400_000;
  expect(days).toBe(89);
  await page.getByRole('button', { name: 'Weekly' }).click();
  expect(await from.inputValue()).toBe(year);
  await close();
});

test('the end of a range can be typed, though its year passes through 2, 20 and 202', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage?granularity=weekly');
  await page.getByRole('button', { name: '1 year' }).click();
  const from = page.getByLabel('From');
  const year = await from.inputValue();
  const wanted = new Date(Date.parse(year) + 40 * 86_400_000).toISOString().slice(0, 10);
  await from.focus();
  await page.keyboard.type(`${wanted.slice(5, 7)}${wanted.slice(8)}${wanted.slice(0, 4)}`);
  await expect.poll(() => new URL(page.url()).searchParams.get('start')).toBe(wanted);
  expect(await from.inputValue()).toBe(wanted);
  await close();
});

test('an operation of the API reference is found by a word, its address leads to it, and only operators see theirs', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/reference');
  await page.getByText('/v1/chat/completions').waitFor();
  expect(await page.getByText('/api/v1/admin/').count()).toBe(0);
  await page.getByRole('searchbox', { name: 'Search operations' }).fill('patch organization');
  await page.getByRole('button', { name: /^GET/ }).first().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: /Rename your organization/ }).click();
  await page.getByText('Needs a session of an admin or owner.').waitFor();
  expect(new URL(page.url()).searchParams.get('operation')).toBe('renameYourOrganization');
  await page.reload();
  await page.getByRole('list', { name: 'Fields of Body' }).getByText('name', { exact: true }).waitFor();
  expect(await page.getByRole('region', { name: 'Rename your organization with curl' }).textContent()).toContain(
    `curl -X PATCH "${portal.url}/api/v1/organization"`,
  );
  await page.getByRole('searchbox', { name: 'Search operations' }).fill('summarize usage');
  await page.getByRole('button', { name: /Summarize usage$/ }).click();
  // Without its days it would be refused.
  await page.getByText('/api/v1/usage/summary?start_date=$START_DATE&end_date=$END_DATE"').waitFor();
  // An inference key, which the snippets of models take from MODEL_GATEWAY_KEY, would be refused for usage.
  for (const [summary, credential] of [
    ['List models', '$MODEL_GATEWAY_KEY'],
    ['Get current usage', '$MANAGEMENT_KEY'],
    ['List keys', '$ACCESS_TOKEN'],
  ] as const) {
    await page.getByRole('searchbox', { name: 'Search operations' }).fill(summary);
    await page
      .getByRole('button', { name: new RegExp(`${summary}$`) })
      .first()
      .click();
    await page
      .getByRole('region', { name: `${summary} with curl` })
      .getByText(`Bearer ${credential}"`)
      .waitFor();
  }
  await close();
});
