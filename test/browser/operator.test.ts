import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type Portal, startPortal, users } from './support/portal.ts';

let portal: Portal;
let browser: Browser;
beforeAll(async () => {
  [portal, browser] = await Promise.all([startPortal(), launchBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

const dialog = (page: Page) => page.getByRole('dialog');

test('an operator makes an organization, its credit, limits and a coupon, and sees the mail', async () => {
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
  await page.getByText(/Invalid value for `rate_limits/).waitFor();
  await page.getByLabel('Requests / min').fill('1200');
  await page.getByLabel('Keys per user').fill('25');
  const patch = page.waitForRequest((one) => one.method() === 'PATCH');
  await page.getByRole('button', { name: 'Save settings' }).click();
  expect((await patch).postDataJSON()).toEqual({ key_quota: 25, rate_limits: { requests_per_minute: 1200 } });
  await page.getByText('The settings are saved.').first().waitFor();
  await page.getByLabel('Amount in USD').first().fill('40');
  await page.getByRole('button', { name: 'Grant credit' }).click();
  await page.getByText('$40.00').waitFor();

  await page.goto(`${portal.url}/operator/coupons`);
  await page.getByRole('button', { name: 'Create coupon' }).click();
  await dialog(page).getByLabel('Code').fill('SPRING-2031');
  await dialog(page).getByLabel('Amount in USD').fill('10');
  await dialog(page).getByRole('button', { name: 'Create coupon' }).click();
  await dialog(page).getByText('SPRING-2031').waitFor();
  await dialog(page).getByRole('button', { name: 'I have copied it' }).click();
  await page.getByRole('row').filter({ hasText: '$10.00' }).waitFor();
  expect(await page.getByText('SPRING-2031').count()).toBe(0);

  await page.goto(`${portal.url}/operator/mail`);
  await page.getByRole('row').filter({ hasText: 'first@fabrikam.example' }).getByRole('button').click();
  await dialog(page)
    .getByText(/accept-invitation|accept-invite/)
    .waitFor();
  await close();
});

test('an operator adds a model with a deployment and a price, and watches it serve', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/models');
  await page.getByRole('button', { name: 'Add model' }).click();
  await dialog(page).getByLabel('Name', { exact: true }).fill('acme/nova');
  await dialog(page).getByLabel('Display name').fill('Nova');
  await dialog(page).getByRole('button', { name: 'Add model' }).click();
  await page.getByRole('heading', { level: 1, name: 'Nova' }).waitFor();
  await page.getByRole('button', { name: 'Add deployment' }).click();
  await dialog(page).getByLabel('Server').selectOption('sandbox');
  await dialog(page).getByLabel("The upstream's name of the model").fill('sandbox-chat');
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await page.getByRole('table', { name: 'Deployments' }).getByText('Running').waitFor();
  await page.getByRole('button', { name: 'Set price' }).click();
  await dialog(page).getByLabel('Million input tokens').first().fill('-1');
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  await dialog(page)
    .getByText(/input_per_million_tokens_usd/)
    .waitFor();
  await dialog(page).getByLabel('Million input tokens').first().fill('0.5');
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  await page
    .getByRole('table', { name: 'Prices' })
    .getByText(/\$0\.50/)
    .waitFor();
  await page.goto(`${portal.url}/operator/health`);
  await page.getByRole('row').filter({ hasText: 'acme/nova' }).getByText('Running').waitFor();
  await page.getByRole('row').filter({ hasText: 'studio/paint' }).getByText('Stopped').waitFor();
  await page.goto(`${portal.url}/operator/jobs`);
  await page.getByRole('row').filter({ hasText: portal.world.jobId }).getByText('completed').waitFor();
  await close();
});

test('an operator suspends an organization, everybody in it is told, and restores it', async () => {
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

test('an operator sees what an announcement will cause before making it', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'UTC' });
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  await page.getByRole('button', { name: 'Announce' }).click();
  await dialog(page).getByLabel('Model', { exact: true }).selectOption('acme/ember-8b:fast');
  await dialog(page).getByLabel('Successor', { exact: true }).selectOption('acme/ember-70b');
  const headers = dialog(page).getByRole('region', { name: 'Preview of the headers' });
  expect(await headers.textContent()).toMatch(
    /Deprecation: @\d{10}\nLink: <http.*\/retirements\/acme%2Fember-8b%3Afast>; rel="deprecation".*rel="successor-version"/,
  );
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).count()).toBe(0);
  await dialog(page).getByLabel('Retires (local time)').fill('2031-01-31T12:00');
  await dialog(page).getByText('Mail: 30 days left').waitFor();
  expect(await headers.textContent()).toContain('Sunset: Fri, 31 Jan 2031 12:00:00 GMT');
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).textContent()).toContain(
    'Its successor is acme/ember-70b: use that name as model.',
  );
  const shown = [headers, dialog(page).getByRole('region', { name: 'Preview of the mail' })];
  const [shownHeaders, shownMail] = await Promise.all(shown.map((region) => region.locator('pre').textContent()));
  await dialog(page).getByRole('button', { name: 'Announce' }).click();
  await page.getByText('The retirement of acme/ember-8b:fast is announced.').first().waitFor();
  // What the gateway then sends is what was shown.
  const { call } = portal.gateway;
  const { owner, operator } = portal.world.people;
  const address = `/v1/models/${encodeURIComponent('acme/ember-8b:fast')}`;
  const own = (text: string) => text.replaceAll(portal.url, portal.gateway.env.publicUrl);
  await expect.poll(async () => (await call('GET', address, owner.token)).headers.get('link')).not.toBeNull();
  const sent = (await call('GET', address, owner.token)).headers;
  const exactly = own(shownHeaders!).replace(/@\d+/, sent.get('deprecation')!);
  expect(`Deprecation: ${sent.get('deprecation')}\nSunset: ${sent.get('sunset')}\nLink: ${sent.get('link')}`).toBe(
    exactly,
  );
  const mailed = async () => {
    const { json } = await call('GET', '/api/v1/admin/mail?search=owner@example.com', operator.token);
    const mail = json.data.find(({ subject }: { subject: string }) => subject.includes('ember-8b'));
    return mail && `Subject: ${mail.subject}\n\n${mail.text.trim()}`;
  };
  await expect.poll(mailed, { timeout: 30_000 }).toBe(own(shownMail!));
  await page.goto(`${portal.url}/models`);
  await page
    .getByRole('row')
    .filter({ hasText: 'Ember 8B Fast' })
    .getByText(/Retiring · \d+ days left/)
    .waitFor();
  expect(await page.getByRole('row').filter({ hasText: 'Spark' }).textContent()).not.toContain('days left');
  await close();
});

test('an operator revokes a key without ever seeing a secret', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/keys');
  const first = page.getByRole('row').filter({ hasText: 'Checkout production' }).first();
  await first.getByRole('button', { name: 'Revoke' }).click();
  await dialog(page).getByRole('button', { name: 'Revoke key' }).click();
  await first.getByText('revoked').waitFor();
  expect(await page.content()).not.toMatch(/sk-proj-[0-9a-f]{8}/);
  await close();
});
