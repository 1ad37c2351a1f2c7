import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('a background job is followed to its result, its usage and its cost, and a running one is cancelled', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const submitted = await call('POST', '/api/v1/jobs', portal.world.people.owner.token, {
    endpoint: '/v1/chat/completions',
    body: { model: 'test/slow', messages: [{ role: 'user', content: 'Take your time.' }] },
  });
  expect(submitted.status).toBe(202);
  await signIn(page, portal.url, users.owner, '/jobs');
  const running = page.getByRole('row').filter({ hasText: submitted.json.id });
  await running.getByText('in progress').waitFor();
  await running.getByRole('button', { name: `Cancel ${submitted.json.id}` }).click();
  await running.getByText('cancelled').waitFor();
  await page.getByRole('row').filter({ hasText: 'acme/ember-70b' }).getByText('failed').waitFor();
  await page.getByLabel('Status', { exact: true }).selectOption('completed');
  await running.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: portal.world.jobId }).click();
  expect(await page.getByRole('region', { name: 'Result' }).textContent()).toContain('"object": "chat.completion"');
  await page.getByText(/^You have reached the Model Gateway sandbox\./).waitFor();
  const result = page.getByRole('region', { name: 'Result' });
  await page.getByText('The body that the synchronous call would have returned').waitFor();
  const used = page.locator('section', { has: page.getByRole('heading', { name: 'Usage' }) });
  expect(await used.innerText()).toMatch(/^Usage\s+Input tokens\s+\d+\s+Output tokens\s+\d+\s+Cost\s+\$0\.0000\d+$/);
  const history = await call('GET', '/api/v1/usage/history?limit=100', portal.world.people.owner.token);
  const { request_id } = history.json.data.find(({ job_id }: { job_id: string }) => job_id === portal.world.jobId);
  await goWithin(page, `/usage?by=request&search=${request_id}`);
  await page.getByRole('button', { name: /^Request of/ }).click();
  await page.getByRole('dialog').getByRole('link', { name: portal.world.jobId }).click();
  await used.waitFor();
  const dismissed = Promise.withResolvers<void>();
  let deletions = 0;
  await page.route(`**/api/v1/jobs/${portal.world.jobId}`, async (route) => {
    if (route.request().method() !== 'GET') {
      if (deletions++ > 0) return route.fallback();
      await dismissed.promise;
      return route.fulfill({ status: 409, json: { error: { message: 'Not now.', code: null, param: null } } });
    }
    const answer = await route.fetch();
    await route.fulfill({
      response: answer,
      json: { ...(await answer.json()), result: { b64_json: 'a'.repeat(300_000) } },
    });
  });
  await page.reload();
  await page.getByText('The first 200,000 of 300,020 characters').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete job' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  // A refusal is told although its question is gone, and is no answer to the next one.
  dismissed.resolve();
  await page.getByText('Not now.').first().waitFor();
  await result.waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  expect(await page.getByRole('dialog').textContent()).not.toContain('Not now.');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete job' }).click();
  await page.getByText('Job and result deleted.').first().waitFor();
  await page.getByRole('link', { name: portal.world.jobId }).waitFor({ state: 'detached' });
  await close();
});

test('the result of a job is heard, seen or read as what it is, and downloaded', async () => {
  const { page, troubles, close } = await openPage(browser);
  const submit = async (endpoint: string, body: object): Promise<string> => {
    const token = portal.world.people.member.token;
    return (await portal.gateway.call('POST', '/api/v1/jobs', token, { endpoint, body })).json.id;
  };
  const speech = await submit('/v1/audio/speech', {
    model: 'sandbox-speech',
    input: 'Hello there.',
    voice: 'alloy',
    response_format: 'wav',
  });
  const image = await submit('/v1/images/generations', { model: 'sandbox-image', prompt: 'A cat' });
  await signIn(page, portal.url, users.member, `/jobs/${speech}`);
  const player = page.locator('audio[aria-label="Result"]');
  await player.waitFor();
  await expect.poll(() => page.evaluate('document.querySelector("audio").duration')).toBeGreaterThan(0);
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  expect((await download).suggestedFilename()).toBe(`${speech}.wav`);
  expect(
    readFileSync(await (await download).path())
      .subarray(0, 4)
      .toString(),
  ).toBe('RIFF');
  await goWithin(page, `/jobs/${image}`);
  const shown = page.getByRole('img', { name: 'Answer, number 1' });
  await shown.waitFor();
  await expect.poll(() => page.evaluate('document.querySelector("main img").naturalWidth')).toBe(1024);
  let result: object = { content_type: 'text/plain; charset=utf-8', b64: Buffer.from('Grüße!\n').toString('base64') };
  await page.route(`**/api/v1/jobs/${speech}`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), result } });
  });
  await page.goto(`${portal.url}/jobs/${speech}`);
  expect(await page.getByRole('region', { name: 'Result' }).locator('pre').textContent()).toBe('Grüße!\n');
  result = { content_type: 'audio/pcm', b64: Buffer.from('samples').toString('base64') };
  await page.reload();
  await page.getByText('Browsers can neither play nor show this type.').waitFor();
  const address = 'https://elsewhere.example/cat.png';
  result = { data: [null, { b64_json: 'iVBORw0KGgo=' }, { url: address }] };
  await page.reload();
  await shown.waitFor({ state: 'attached' });
  await page.getByRole('link', { name: address }).waitFor();
  expect(troubles).toEqual([]);
  await close();
});

test('a job is polled until it ends, and its result fetched once', async () => {
  const { page, close } = await openPage(browser);
  const submitted = await portal.gateway.call('POST', '/api/v1/jobs', portal.world.people.admin.token, {
    endpoint: '/v1/chat/completions',
    body: { model: 'test/slow', messages: [{ role: 'user', content: 'Take your time.' }] },
  });
  await page.clock.install();
  const states: string[] = [];
  page.on('response', async (response) => {
    if (response.url().endsWith(`/api/v1/jobs/${submitted.json.id}`)) states.push((await response.json()).status);
  });
  await signIn(page, portal.url, users.admin, `/jobs/${submitted.json.id}`);
  await expect.poll(() => states.length).toBeGreaterThan(1);
  await portal.gateway.call('POST', `/api/v1/jobs/${submitted.json.id}/cancel`, portal.world.people.admin.token);
  await page.getByText('cancelled').first().waitFor();
  await page.clock.runFor(60_000);
  // Another page's answers arrive after those that the minute requested.
  await goWithin(page, '/jobs');
  await page.getByRole('link', { name: submitted.json.id }).waitFor();
  expect(states.filter((state) => state === 'cancelled')).toHaveLength(1);
  await close();
});
