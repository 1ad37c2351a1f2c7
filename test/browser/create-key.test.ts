import { expect, test } from 'vitest';
import { dialog, doubleClick, inSight, openPage, overPlainHttp, row, signIn, signInByForm } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('a created key shows its secret once, and a double click creates one key', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  const keysOfMember = async () =>
    (await portal.gateway.call('GET', '/api/v1/api-keys', portal.world.people.member.token)).json.pagination.total;
  const before = await keysOfMember();
  await page.getByRole('button', { name: 'Create key' }).first().click();
  await dialog(page).getByLabel('Name').fill('Made by a test');
  await dialog(page).getByRole('button', { name: 'Create key' }).dblclick();
  const secret = await dialog(page).locator('[data-secret]').textContent();
  expect(secret).toMatch(/^sk-proj-\w{32,}$/);
  await dialog(page).getByText('Copy the secret now.').waitFor();
  await dialog(page).getByRole('button', { name: 'I have copied it' }).click();
  await row(page, 'Made by a test').waitFor();
  expect(await keysOfMember()).toBe(before + 1);
  expect(await page.content()).not.toContain(secret);
  await close();
});

test('a reload while a new secret is shown leads to the list with the key in it, not to another empty form', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys?type=inference&create=1');
  await dialog(page).getByLabel('Name').fill('made before the reload');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await page.locator('[data-secret]').waitFor();
  await page.reload();
  await row(page, 'made before the reload').waitFor();
  expect(await dialog(page).count()).toBe(0);
  expect(page.url()).toBe(`${portal.url}/keys?type=inference`);
  await close();
});

test('the second click of a double click does not dismiss the secret that the first one brought, though a button appears under it', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.admin, '/keys?create=1');
  await page.getByLabel('Name').fill('made by a double tap');
  const secret = page.locator('[data-secret]');
  await doubleClick(page, page.getByRole('dialog').getByRole('button', { name: 'Create key' }), () => secret.waitFor());
  await page.getByRole('dialog').getByRole('button', { name: 'Copy secret' }).click();
  expect(await secret.isVisible()).toBe(true);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await secret.waitFor({ state: 'detached' });
  await close();
});

test('a secret that is on its way is shown when it arrives, though its dialog was dismissed meanwhile', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin, '/keys?create=1');
  const secret = page.locator('[data-secret]');
  const dismissWhileIn = async (path: string, button: string) => {
    const dismissed = Promise.withResolvers<void>();
    await page.route(path, async (route) => {
      if (route.request().method() === 'POST') await dismissed.promise;
      await route.continue();
    });
    const asked = page.waitForRequest((request) => request.method() === 'POST');
    await dialog(page).getByRole('button', { name: button }).click();
    await asked;
    await dialog(page).locator('[aria-busy]').waitFor();
    await page.keyboard.press('Escape');
    dismissed.resolve();
    await secret.waitFor();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await dialog(page).waitFor({ state: 'detached' });
  };
  await dialog(page).getByLabel('Name').fill('dismissed too soon');
  await dismissWhileIn('**/api/v1/api-keys', 'Create key');
  await page.getByRole('button', { name: 'Actions for dismissed too soon' }).click();
  await page.getByRole('menuitem', { name: 'Rotate secret' }).click();
  await dismissWhileIn('**/rotate', 'Create new secret');
  await close();
});

test('over plain HTTP, where there is no clipboard, a secret is still copied, or selected for copying, and stays until dismissed', async () => {
  const { page, close } = await openPage(browser);
  await signInByForm(page, await overPlainHttp(page, portal.url), users.owner, '/keys?create=1');
  expect(await page.evaluate('[isSecureContext, navigator.clipboard]')).toEqual([false, undefined]);
  await dialog(page).getByLabel('Name').fill('Over plain HTTP');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  const secret = (await dialog(page).locator('[data-secret]').textContent())!;
  await page.evaluate(`
    document.addEventListener('copy', () => {
      const { value, selectionStart, selectionEnd } = document.activeElement;
      window.copied = value?.slice(selectionStart, selectionEnd);
    });
  `);
  const copy = dialog(page).locator('[data-secret] + button');
  await copy.click();
  await copy.getByText('Copied').waitFor();
  expect(await page.evaluate('window.copied')).toBe(secret);

  await page.evaluate('document.execCommand = () => false');
  await copy.click();
  await copy.getByText('Press Ctrl C').waitFor();
  expect(await page.evaluate('getSelection().toString()')).toBe(secret);
  await page.keyboard.press('Escape');
  expect(await dialog(page).locator('[data-secret]').textContent()).toBe(secret);
  await dialog(page).getByRole('button', { name: 'I have copied it' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await close();
});

test('each complaint of the API is shown at its field, without the API’s name for it', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  await dialog(page).getByLabel('Name').fill('x');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await dialog(page)
    .getByText(/^It must have at least 2 characters/)
    .waitFor();
  expect(await dialog(page).getByLabel('Name').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByLabel('Name').fill('A good name');
  await dialog(page).locator('summary', { hasText: 'Restrictions' }).click();
  await dialog(page).getByLabel('Only from these addresses').fill('10.0.0.0/8, nonsense');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await dialog(page)
    .getByText(/`nonsense`. Expected IP addresses/)
    .waitFor();
  expect(await dialog(page).getByLabel('Only from these addresses').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByLabel('Only from these addresses').fill('');
  await dialog(page).getByLabel('Daily spend cap in USD').fill('ten');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await dialog(page)
    .getByText(/^It must be a number/)
    .waitFor();
  await close();
});

test('whoever submits a long form from its end sees what went wrong further up, with the whole form or with one field', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 700 } });
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  await dialog(page).locator('summary', { hasText: 'Scopes' }).click();
  const create = dialog(page).getByRole('button', { name: 'Create key' });
  const name = dialog(page).getByLabel('Name');
  const sendFromTheEnd = async () => {
    await dialog(page).evaluate((form) => form.scrollTo(0, form.scrollHeight));
    await create.click();
  };
  await page.route('**/api/v1/api-keys', (route) => route.fulfill({ status: 503, json: {} }), { times: 1 });
  await name.fill('A good name');
  await sendFromTheEnd();
  await expect.poll(() => inSight(dialog(page).getByText('The gateway answered with status 503.'))).toBe(true);
  await name.fill('x');
  await sendFromTheEnd();
  await expect.poll(() => inSight(dialog(page).getByText(/must have at least 2 characters/))).toBe(true);
  expect(await inSight(name)).toBe(true);
  await close();
});

test('a refused form moves the focus to its first wrong field, but not away from a field that is being typed in', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  const name = dialog(page).getByLabel('Name');
  const complaint = dialog(page).getByText(/must have at least 2 characters/);
  const focused = () => page.evaluate('document.activeElement.value ?? document.activeElement.tagName');
  await name.fill('x');
  await dialog(page).getByRole('button', { name: 'Create key' }).press('Enter');
  await complaint.waitFor();
  await expect.poll(focused).toBe('x');

  await name.fill('y');
  await dialog(page).locator('summary', { hasText: 'Restrictions' }).click();
  const asked = Promise.withResolvers<void>();
  await page.route('**/api/v1/api-keys', async (route) => {
    await asked.promise;
    await route.fallback();
  });
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await complaint.waitFor({ state: 'detached' });
  await dialog(page).getByLabel('Daily spend cap in USD').fill('10');
  asked.resolve();
  await complaint.waitFor();
  expect(await focused()).toBe('10');
  await close();
});

test('the models offered for a restriction are those whose names contain what is being typed', async () => {
  const { page, close } = await openPage(browser);
  // As a file's name on a Mac spells it.
  const nameOf = (at: string | number) => `vendor/fämily-${at}`.normalize('NFD');
  await page.route('**/api/v1/models?*', async (route) => {
    const answer = await route.fetch({ url: `${portal.url}/api/v1/models` });
    const [model] = (await answer.json()).data;
    const search = new URL(route.request().url()).searchParams.get('search')?.toLowerCase() ?? '';
    const ids = Array.from({ length: 300 }, (_, at) => nameOf(at)).filter((id) => id.normalize().includes(search));
    const data = ids.slice(0, 100).map((id) => ({ ...model, id }));
    await route.fulfill({ response: answer, json: { data } });
  });
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  await dialog(page).locator('summary', { hasText: 'Restrictions' }).click();
  const models = dialog(page).getByLabel('Only these models');
  await dialog(page)
    .getByRole('button', { name: `+ ${nameOf(0)}`, exact: true })
    .click();
  await models.pressSequentially(', ÄMILY-27');
  const offered = dialog(page).getByRole('button', { name: /^\+ / });
  await expect
    .poll(() => offered.allInnerTexts())
    .toEqual(['', 0, 1, 2, 3, 4, 5, 6].map((digit) => `+ ${nameOf(`27${digit}`)}`));
  await models.pressSequentially('8');
  await offered.click();
  expect(await models.inputValue()).toBe(`${nameOf(0)}\n${nameOf(278)}`);
  await close();
});

test('expiry has the presets, which end as the list will say, and a custom date says when the key stops', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'Pacific/Auckland' });
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  const expires = dialog(page).getByLabel('Expires');
  await expires.waitFor();
  expect(await expires.locator('option').allTextContents()).toEqual([
    'In 30 days',
    'In 90 days',
    'In 1 year',
    'On a date…',
    'Never',
  ]);
  await expires.selectOption('365');
  const day = new Date(Date.now() + 365 * 86_400_000).toLocaleDateString('en-US', {
    ...{ year: 'numeric', month: 'short', day: 'numeric' },
    timeZone: 'Pacific/Auckland',
  });
  await dialog(page)
    .getByText(new RegExp(`^Until ${day}, \\d\\d:\\d\\d$`))
    .waitFor({ timeout: 5_000 });
  await expires.selectOption('custom');
  await dialog(page).getByText('The key stops working at 00:00 UTC on this day.').waitFor();
  await dialog(page).getByLabel('Date').fill('2031-05-06');
  await dialog(page).getByLabel('Name').fill('Until a date');
  const request = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/api-keys'));
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  expect((await request).postDataJSON()).toMatchObject({ name: 'Until a date', expires_at: '2031-05-06' });
  await close();
});

test('a key whose date was cleared is neither created nor saved: it would never expire', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  const changes: string[] = [];
  page.on('request', (one) => {
    if (one.url().includes('/api-keys') && one.method() !== 'GET') changes.push(one.method());
  });
  await dialog(page).getByLabel('Name').fill('Without a date');
  await dialog(page).getByLabel('Expires').selectOption('custom');
  await dialog(page).getByLabel('Date').fill('');
  await dialog(page).getByText('Enter a full date').waitFor();
  expect(await dialog(page).getByLabel('Date').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByRole('button', { name: 'Create key' }).click();
  await dialog(page).getByLabel('Expires').selectOption('never');
  await dialog(page).getByText('Enter a full date').waitFor({ state: 'detached' });
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();

  await page.getByRole('link', { name: 'Nightly evaluation' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  const { restrictedKeyId, people } = portal.world;
  const { json } = await portal.gateway.call('GET', `/api/v1/api-keys/${restrictedKeyId}`, people.owner.token);
  await dialog(page)
    .getByText(`The key stops working at ${json.expires_at.slice(11, 19)} UTC on this day.`)
    .waitFor({ timeout: 5_000 });
  await dialog(page).getByLabel('Date').fill('');
  await dialog(page).getByRole('button', { name: 'Save changes' }).click();
  await dialog(page).getByText('Enter a full date').waitFor();
  expect(changes).toEqual([]);
  expect(troubles).toEqual([]);
  await close();
});

test.each([
  ['member', false],
  ['admin', true],
] as const)('usage:read_breakdown is offered to a %s: %s', async (role, offered) => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users[role], '/keys?create=1');
  await dialog(page).getByRole('button', { name: 'Management' }).click();
  await dialog(page)
    .getByText(/Scopes · \d+ chosen/)
    .click();
  await dialog(page).getByText('usage:read_report').waitFor();
  expect(await dialog(page).getByText('usage:read_breakdown').count()).toBe(offered ? 1 : 0);
  await close();
});
