import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { dialog, goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok } from './support/world/people.ts';

sharePortal();

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
  await dialog(page).getByLabel("The upstream's name for the model").fill('sandbox-chat');
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await page.getByRole('table', { name: 'Deployments' }).getByText('Running').waitFor();
  await page.getByRole('button', { name: 'Set price' }).click();
  await dialog(page).getByLabel('Million input tokens').first().fill('-1');
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  await dialog(page)
    .getByText(/^It must be at least 0/)
    .waitFor();
  await dialog(page).getByLabel('Million input tokens').first().fill('0.5');
  await dialog(page).getByRole('button', { name: 'Set price' }).click();
  await page.getByRole('table', { name: 'Prices' }).getByText('$0.50 per million input tokens').waitFor();
  await page.goto(`${portal.url}/operator/health`);
  await page.getByRole('row').filter({ hasText: 'acme/nova' }).getByText('Running').waitFor();
  await page.getByRole('row').filter({ hasText: 'studio/paint' }).getByText('Stopped').waitFor();
  await page.goto(`${portal.url}/operator/jobs`);
  await page.getByRole('row').filter({ hasText: portal.world.jobId }).getByText('completed').waitFor();
  await close();
});

test('an operator to whom somebody quotes a job finds it by its id, with whose it is and how far it has come', async () => {
  const { jobId } = portal.world;
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator);
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').fill(jobId);
  await page.getByRole('option', { name: `Job ${jobId}` }).waitFor();
  await page.keyboard.press('Enter');
  const jobs = page.getByRole('table', { name: 'Jobs' }).locator('tbody tr');
  await expect.poll(() => jobs.count()).toBe(1);
  await jobs.getByRole('button', { name: jobId }).click();
  await dialog(page).getByRole('link', { name: users.owner.email }).waitFor();
  expect(await dialog(page).textContent()).toMatch(/StatusCompleted.*Attempts1/);
  await page.keyboard.press('Escape');
  await page.getByLabel('Job id').fill('job_0');
  await page.getByText('No job has this id').waitFor();
  await page.getByLabel('Job id').fill('');
  await page.getByLabel('Model', { exact: true }).selectOption({ index: 1 });
  await page.getByLabel('Status', { exact: true }).selectOption('failed');
  const { searchParams } = new URL(page.url());
  expect([searchParams.get('model'), searchParams.get('status')]).toEqual([expect.stringMatching(/./), 'failed']);
  await close();
});

test('the page of a model tells an operator why a newly added deployment does not run', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/models');
  await page.getByRole('button', { name: 'Add model' }).click();
  await dialog(page).getByLabel('Name', { exact: true }).fill('acme/away');
  await dialog(page).getByRole('button', { name: 'Add model' }).click();
  await page.getByRole('heading', { level: 1, name: 'acme/away' }).waitFor();
  await page.getByRole('button', { name: 'Add deployment' }).click();
  await dialog(page)
    .getByLabel('Base URL')
    .fill(`http://127.0.0.1:${await freePort()}/v1`);
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  const deployments = page.getByRole('table', { name: 'Deployments' });
  await deployments.getByText(/^a probe failed: connect ECONNREFUSED/).waitFor();
  await close();
});

test('an operator registers a whole upstream, sees its own words if it refuses, and cannot leave a key where the secret reference belongs', async () => {
  await using upstream = await startUpstreamSimulator({ models: ['nimbus/chat', 'nimbus/embed'] });
  const refusing = createServer((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: 'This key was withdrawn on Monday.' } }));
  }).listen(0, '127.0.0.1');
  await once(refusing, 'listening');
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/models');
  await page.getByRole('button', { name: 'Register upstream' }).click();
  const baseUrl = dialog(page).getByLabel('Base URL');
  const register = dialog(page).getByRole('button', { name: 'Register upstream' });
  await baseUrl.fill('nowhere');
  await dialog(page).getByLabel('Secret reference').fill('sk-a-real-key');
  await register.click();
  await expect.poll(() => baseUrl.getAttribute('aria-invalid')).toBe('true');
  await baseUrl.fill(`http://127.0.0.1:${(refusing.address() as AddressInfo).port}/v1`);
  await register.click();
  // A key in place of its reference is sent nowhere.
  await expect.poll(() => dialog(page).getByLabel('Secret reference').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByLabel('Secret reference').fill('env:UPSTREAM_NIMBUS_KEY');
  await register.click();
  await dialog(page)
    .getByRole('alert')
    .getByText(/could not be listed: GET \/v1\/models answered 401: This key was withdrawn on Monday\./)
    .waitFor();
  await baseUrl.fill(upstream.url);
  const post = page.waitForRequest((one) => one.method() === 'POST');
  await register.click();
  expect((await post).postDataJSON()).toEqual({ base_url: upstream.url, secret_reference: 'env:UPSTREAM_NIMBUS_KEY' });
  await page.getByText('2 models are in the catalog, with 2 new deployments.').first().waitFor();
  const row = page.getByRole('table', { name: 'Model catalog' }).getByRole('row').filter({ hasText: 'nimbus/embed' });
  await row.getByText('Embeddings').waitFor();
  await close();
  refusing.close();
});

test('a price shows each of its rates, each in two lines at most on a phone', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  const { operator } = portal.world.people;
  const model = 'acme/spark';
  const rates = {
    input_per_million_tokens_usd: 0.5,
    cached_input_per_million_tokens_usd: 0.25,
    output_per_million_tokens_usd: 1.5,
    per_request_usd: 0.001,
  };
  await portal.gateway.call('POST', '/api/v1/admin/prices', operator.token, { model, ...rates });
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent(model)}`);
  const cell = page.locator('td[data-label="Rates"]').filter({ hasText: '$0.001 per request' });
  const lines = cell.getByText(/^\$/);
  await expect.poll(() => lines.count()).toBe(4);
  expect(await lines.allTextContents()).toContain('$0.25 per million cached input tokens');
  const heights = await Promise.all((await lines.all()).map(async (line) => (await line.boundingBox())!.height));
  expect(Math.max(...heights)).toBeLessThan(45);
  await close();
});

test('an operator edits a model, and sees the result among the models', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent('acme/spark')}`);
  await page.getByRole('table', { name: 'Deployments' }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).first().click();
  await dialog(page).getByLabel('Context window').fill('many');
  await dialog(page).getByRole('button', { name: 'Save model' }).click();
  await dialog(page).getByText('It must be an integer.').waitFor();
  await dialog(page).getByLabel('Context window').fill('');
  await dialog(page).getByLabel('Display name').fill('Spark Two');
  await dialog(page).getByLabel('Completions').uncheck();
  await dialog(page).getByRole('button', { name: 'Save model' }).click();
  await page.getByRole('heading', { level: 1, name: 'Spark Two' }).waitFor();
  await page.goto(`${portal.url}/models/${encodeURIComponent('acme/spark')}`);
  const fact = (name: string) => page.locator('dt', { hasText: name }).locator('xpath=following-sibling::dd').first();
  await expect.poll(() => fact('Operations').textContent()).toBe('Chat');
  expect(await fact('Context window').textContent()).toBe('—');
  expect(await fact('Longest answer').textContent()).toBe('16,384 tokens');
  await close();
});

test('an operator disables and enables a deployment, sees each change of its status, and removes it', async () => {
  const { page, close } = await openPage(browser);
  await page.clock.install();
  const { owner, operator } = portal.world.people;
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent('test/slow')}`);
  const deployments = page.getByRole('table', { name: 'Deployments' });
  await deployments.getByText('Running').waitFor();
  await deployments.getByRole('button', { name: 'Edit' }).click();
  await dialog(page).getByLabel('Weight').fill('-1');
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await expect.poll(() => dialog(page).getByLabel('Weight').getAttribute('aria-invalid')).toBe('true');
  await dialog(page).getByLabel('Weight').fill('7');
  await dialog(page).getByLabel('May serve').click();
  await dialog(page).getByRole('button', { name: 'Save deployment' }).click();
  await deployments.getByText('Stopped').waitFor();
  await deployments.getByRole('cell', { name: '7', exact: true }).waitFor();
  const model = () => portal.gateway.call('GET', `/v1/models/${encodeURIComponent('test/slow')}`, owner.token);
  await expect.poll(async () => (await model()).json.is_serviceable).toBe(false);
  // Someone else enables it again, and the page notices by itself.
  const { json } = await portal.gateway.call(
    'GET',
    `/api/v1/admin/models/${encodeURIComponent('test/slow')}`,
    operator.token,
  );
  await portal.gateway.call('PATCH', `/api/v1/admin/deployments/${json.deployments[0].id}`, operator.token, {
    enabled: true,
  });
  await page.clock.fastForward(5_000);
  await deployments.getByText('Running').waitFor();
  await deployments.getByRole('button', { name: 'Edit' }).click();
  await dialog(page).getByRole('button', { name: 'Remove' }).click();
  const question = page.getByRole('dialog', { name: 'Remove the deployment?' });
  await question.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog', { name: 'Edit the deployment' }).getByRole('button', { name: 'Remove' }).click();
  await question.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('No deployments yet').waitFor();
  await close();
});

test('an operator deletes a model after a confirmation, and is told why one with an announced retirement stays', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { owner, operator } = portal.world.people;
  const address = `/v1/models/${encodeURIComponent('acme/brief')}`;
  const created = { name: 'acme/brief', display_name: 'Brief', operations: ['chat_completions'] };
  expect((await call('POST', '/api/v1/admin/models', operator.token, created)).status).toBe(201);
  await expect.poll(async () => (await call('GET', address, owner.token)).status).toBe(200);
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent('acme/ember-2')}`);
  const act = dialog(page).getByRole('button', { name: 'Delete model' });
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await act.click();
  await dialog(page)
    .getByRole('alert')
    .getByText('The retirement of `acme/ember-2` is announced: withdraw it before you delete the model.')
    .waitFor();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();

  await goWithin(page, '/operator/models');
  const row = page.getByRole('table', { name: 'Model catalog' }).getByRole('row').filter({ hasText: 'acme/brief' });
  await row.getByRole('link', { name: 'Brief' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(page)
    .getByText(/This cannot be undone/)
    .waitFor();
  await act.click();
  await page.getByText('acme/brief was deleted.').first().waitFor();
  await page.getByRole('table', { name: 'Model catalog' }).waitFor();
  await row.waitFor({ state: 'detached' });
  expect((await call('GET', address, owner.token)).status).toBe(404);
  // Back does not lead to the page of what is gone.
  await page.goBack();
  expect(new URL(page.url()).pathname).toBe('/operator/models');

  // Of one that a colleague deletes while its page is open nothing more can be done.
  expect((await call('POST', '/api/v1/admin/models', operator.token, created)).status).toBe(201);
  await goWithin(page, `/operator/models/${encodeURIComponent('acme/brief')}`);
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor();
  expect(
    (await call('DELETE', `/api/v1/admin/models/${encodeURIComponent('acme/brief')}`, operator.token)).status,
  ).toBe(204);
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  await page.getByRole('alert').getByText('No such model.').waitFor();
  expect(await page.getByRole('button', { name: /^(Edit|Delete)$/ }).count()).toBe(0);
  await close();
});

test('a private model is granted to an organization and withdrawn, and its members see it accordingly', async () => {
  const { page, close } = await openPage(browser);
  const { member } = portal.world.people;
  const address = `/v1/models/${encodeURIComponent('voice/speak')}`;
  const statusForMember = async () => (await portal.gateway.call('GET', address, member.token)).status;
  await signIn(page, portal.url, users.operator, `/operator/models/${encodeURIComponent('voice/speak')}`);
  const granted = page.getByRole('list', { name: 'Granted to' });
  await granted.getByText('Northwind Robotics').waitFor();
  await granted.getByRole('button', { name: 'Withdraw' }).click();
  await granted.getByText('No organization has it yet.').waitFor();
  await expect.poll(statusForMember).toBe(404);
  await page.getByLabel('Grant to an organization').fill('no such organization');
  await page.getByText('No organization matches.').waitFor();
  await page.getByLabel('Grant to an organization').fill('northwind');
  const found = page.getByRole('list', { name: 'Organizations found' }).getByRole('listitem');
  await found.filter({ hasText: 'Northwind Robotics' }).getByRole('button', { name: 'Grant' }).click();
  await granted.getByText('Northwind Robotics').waitFor();
  await expect.poll(statusForMember).toBe(200);
  // Of a model that hundreds have, one is found by its name as well, and the names of all are not read.
  const others = Array.from({ length: 300 }, () => randomUUID());
  await page.route(`**/api/v1/admin/models/${encodeURIComponent('voice/speak')}`, async (route) => {
    const response = await route.fetch();
    const model = await response.json();
    await route.fulfill({
      response,
      json: { ...model, granted_tenant_ids: [...others, ...model.granted_tenant_ids] },
    });
  });
  const named: string[] = [];
  page.on('request', (request) => {
    if (/\/admin\/organizations\/[-\da-f]{36}$/.test(request.url())) named.push(request.url());
  });
  await page.reload();
  await granted.getByText('281 more').waitFor();
  await granted.getByRole('button', { name: 'Show 20' }).click();
  await granted.getByText('261 more').waitFor();
  await page.getByLabel('Grant to an organization').fill('northwind');
  await found.getByRole('button', { name: 'Withdraw from Northwind Robotics' }).click();
  await found.getByRole('button', { name: 'Grant to Northwind Robotics' }).waitFor();
  await expect.poll(statusForMember).toBe(404);
  await found.getByRole('button', { name: 'Grant to Northwind Robotics' }).click();
  await expect.poll(statusForMember).toBe(200);
  expect(new Set(named).size).toBeLessThanOrEqual(41);
  await close();
});

test('an operator sees what an announcement will cause before making it, and afterwards who was notified', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'UTC' });
  // As in a catalog of more models than one page lists.
  await page.route('**/api/v1/admin/models?*', async (route) => {
    const response = await route.fetch();
    const { data, pagination } = await response.json();
    await route.fulfill({ response, json: { data, pagination: { ...pagination, total_pages: 100 } } });
  });
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  await page.getByRole('button', { name: 'Announce' }).click();
  await dialog(page).getByLabel('Model', { exact: true }).selectOption('acme/ember-8b:fast');
  const successor = dialog(page).getByLabel('Successor', { exact: true });
  await dialog(page).getByRole('searchbox', { name: 'Successor: search' }).fill('EMBER-7');
  await expect.poll(() => successor.locator('option').count()).toBe(2);
  await successor.selectOption('acme/ember-70b');
  // What is chosen is not sent by the Enter of a search.
  await dialog(page).getByRole('searchbox', { name: 'Successor: search' }).press('Enter');
  const headers = dialog(page).getByRole('region', { name: 'Preview of the headers' });
  expect(await headers.textContent()).toMatch(
    /Deprecation: @\d{10}\nLink: <http.*\/retirements\/acme%2Fember-8b%3Afast>; rel="deprecation".*rel="successor-version"/,
  );
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).count()).toBe(0);
  await dialog(page).getByLabel('Retires (local time)').fill('2031-01-31T12:00');
  await dialog(page).getByText('Mail: 30 days left').waitFor();
  // Nothing of what will happen is past.
  expect(await dialog(page).getByRole('list', { name: 'Timeline' }).textContent()).not.toContain('past');
  expect(await headers.textContent()).toContain('Sunset: Fri, 31 Jan 2031 12:00:00 GMT');
  expect(await dialog(page).getByRole('region', { name: 'Preview of the mail' }).textContent()).toContain(
    'Its successor is acme/ember-70b: use that name as the model.',
  );
  const shown = [headers, dialog(page).getByRole('region', { name: 'Preview of the mail' })];
  const [shownHeaders, shownMail] = await Promise.all(shown.map((region) => region.locator('pre').textContent()));
  await dialog(page).getByRole('button', { name: 'Announce' }).click();
  await page.getByText('The retirement of acme/ember-8b:fast was announced.').first().waitFor();
  // What the gateway then sends matches the preview.
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
  // Those of later points get their recipients when they are due, so nobody knows yet how many there will be.
  await page.reload();
  const card = page.getByRole('main').locator('section').filter({ hasText: 'acme/ember-8b:fast' }).first();
  await card.getByText(/Emails\d+ sent$/).waitFor();
  // The model's page says who was notified, of this retirement and no other.
  const asked = page.waitForRequest(/\/admin\/reminders\?.*model=acme%2Fember-8b%3Afast/, { timeout: 10_000 });
  await page.goto(`${portal.url}/operator/models/${encodeURIComponent('acme/ember-8b:fast')}`);
  const told = page.getByRole('table', { name: 'Reminders' }).getByRole('row').filter({ hasText: 'owner@example.com' });
  await told.filter({ hasText: 'Announcement' }).getByText('Sent', { exact: true }).waitFor();
  await asked;
  await page.goto(`${portal.url}/models`);
  await page
    .getByRole('row')
    .filter({ hasText: 'Ember 8B Fast' })
    .getByText(/Retiring · \d+ days left/)
    .waitFor();
  expect(await page.getByRole('row').filter({ hasText: 'Spark' }).textContent()).not.toContain('days left');
  await close();
});

test('a digit too many in the year of a date leaves the page as it is, and the date can be corrected', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  await page.getByRole('button', { name: 'Announce' }).click();
  await dialog(page).getByLabel('Model', { exact: true }).selectOption({ index: 1 });
  const sunset = dialog(page).getByLabel('Retires (local time)');
  await sunset.focus();
  // The last digit of the year is pressed twice.
  await page.keyboard.type('0131203111200PM');
  expect(await page.getByText('This page could not be shown').count()).toBe(0);
  expect(await sunset.inputValue()).toMatch(/^\d{4}-01-31T/);
  await sunset.fill('2031-01-31T12:00');
  await dialog(page).getByText('Mail: 30 days left').waitFor();

  await goWithin(page, '/operator/models/sandbox-chat');
  await page.getByRole('button', { name: 'Set price' }).click();
  const from = dialog(page).getByLabel('In force from (local time)');
  await from.focus();
  await page.keyboard.type('0131203111200PM');
  expect(await from.inputValue()).toMatch(/^\d{4}-01-31T/);

  await goWithin(page, '/keys?create=1');
  await dialog(page).getByLabel('Expires').selectOption('custom');
  const day = dialog(page).getByLabel('Date', { exact: true });
  await day.focus();
  await page.keyboard.type('013120311');
  expect(await day.inputValue()).toMatch(/^\d{4}-01-31$/);
  expect(troubles).toEqual([]);
  await close();
});

test('an operator sets, moves and withdraws a retirement date, and sees in advance what each will cause', async () => {
  const { page, close } = await openPage(browser, { timezoneId: 'UTC' });
  const { owner } = portal.world.people;
  const address = `/v1/models/${encodeURIComponent('acme/spark')}`;
  const sent = async (name: string) => (await portal.gateway.call('GET', address, owner.token)).headers.get(name);
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  const card = page.getByRole('main').locator('section').filter({ hasText: 'acme/spark' }).first();
  await card.getByText('Announced, no date: headers, no email').waitFor();
  await card.getByRole('button', { name: 'Set date' }).click();
  const date = dialog(page).getByLabel('Retires (local time)');
  await date.fill('2020-01-31T12:00');
  await dialog(page).getByRole('button', { name: 'Save date' }).click();
  await expect.poll(() => date.getAttribute('aria-invalid')).toBe('true');
  await date.fill('2031-01-31T12:00');
  await dialog(page).getByText('Mail: 30 days left').waitFor();
  const mail = dialog(page).getByRole('region', { name: 'Preview of the mail' });
  expect(await mail.textContent()).toMatch(/Subject: acme\/spark retires on 2031-01-31.*there is no equal/s);
  await dialog(page).getByText('Date set: first email').waitFor();
  await dialog(page).getByRole('button', { name: 'Save date' }).click();
  await card.getByText('Sunset: Fri, 31 Jan 2031 12:00:00 GMT').waitFor();
  await expect.poll(() => sent('sunset')).toBe('Fri, 31 Jan 2031 12:00:00 GMT');
  const deprecation = await sent('deprecation');

  await card.getByRole('button', { name: 'Move date' }).click();
  await date.fill('2032-02-29T06:30');
  expect(await mail.textContent()).toContain('Subject: Reminder: acme/spark retires on 2032-02-29');
  const headers = dialog(page).getByRole('region', { name: 'Preview of the headers' });
  expect(await headers.textContent()).toContain(`Deprecation: ${deprecation}\nSunset: Sun, 29 Feb 2032 06:30:00 GMT`);
  await dialog(page).getByRole('button', { name: 'Save date' }).click();
  await expect.poll(() => sent('sunset')).toBe('Sun, 29 Feb 2032 06:30:00 GMT');
  expect(await sent('deprecation')).toBe(deprecation);

  // A date that is set elsewhere, to the millisecond, is kept by whoever saves the form as it opened.
  const path = `/api/v1/admin/retirements/${encodeURIComponent('acme/spark')}`;
  const { token } = portal.world.people.operator;
  await portal.gateway.call('PATCH', path, token, { sunset_at: '2032-03-31T23:59:59.999Z' });
  await page.reload();
  await card.getByText('Sunset: Wed, 31 Mar 2032 23:59:59 GMT').waitFor();
  await card.getByRole('button', { name: 'Move date' }).click();
  const again = page.waitForRequest((one) => one.method() === 'PATCH');
  await dialog(page).getByRole('button', { name: 'Save date' }).click();
  expect((await again).postDataJSON()).toEqual({ sunset_at: '2032-03-31T23:59:59.999Z' });
  await dialog(page).waitFor({ state: 'detached' });

  await card.getByRole('button', { name: 'Withdraw' }).click();
  await dialog(page).getByRole('button', { name: 'Withdraw' }).click();
  await card.getByText('Withdrawn', { exact: true }).first().waitFor();
  await card.getByText('Withdrawn: the model stays').waitFor();
  expect(await card.getByText('Retired: 410, out of the listing, last email').count()).toBe(0);
  await expect.poll(() => sent('deprecation')).toBeNull();
  await close();
});

test('what needs an operator comes first: the next model to stop, and deployments in trouble', async () => {
  const { page, close } = await openPage(browser);
  const { token } = portal.world.people.operator;
  await ok(portal.gateway, 'POST', '/admin/models', token, { name: 'zenith/last', operations: ['chat_completions'] });
  const away = { model: 'zenith/last', base_url: 'http://127.0.0.1:9/v1', upstream_model: 'away' };
  await ok(portal.gateway, 'POST', '/admin/deployments', token, away);
  await signIn(page, portal.url, users.operator, '/operator/retirements');
  const titles = page.getByRole('main').getByRole('heading', { level: 2 });
  await titles.filter({ hasText: 'acme/spark' }).waitFor();
  const models = await titles.allInnerTexts();
  const place = (model: string) => models.findIndex((title) => title.startsWith(model));
  expect(place('acme/ember-2')).toBeGreaterThanOrEqual(0);
  expect(place('acme/ember-2')).toBeLessThan(place('acme/spark'));
  await goWithin(page, '/operator/models/acme%2Fspark');
  await page.getByRole('link', { name: 'Retirement', exact: true }).click();
  await page.getByText('Only retirements of acme/spark').waitFor();
  await expect
    .poll(async () => (await titles.allInnerTexts()).every((title) => title.startsWith('acme/spark')))
    .toBe(true);
  await page.getByRole('button', { name: 'Show all' }).click();
  await titles.filter({ hasText: 'acme/ember-2' }).waitFor();
  await goWithin(page, '/operator/health');
  const rows = page.getByRole('table', { name: 'Deployments' }).getByRole('row');
  const placeOf = async (model: string) => (await rows.allInnerTexts()).findIndex((row) => row.startsWith(model));
  await rows.filter({ hasText: 'zenith/last' }).waitFor();
  expect(await placeOf('zenith/last')).toBeLessThan(await placeOf('acme/ember-70b'));
  await close();
});
