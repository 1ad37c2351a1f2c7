import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { portalDist } from '../../edge/portal/build.ts';
import { snippet } from '../../edge/portal/src/pages/models/snippets.ts';
import { wavHeader } from '../../services/models/audio/wav-header.ts';
import { seriousFindings } from './support/axe.ts';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';

const portalSources = fileURLToPath(new URL('../../edge/portal/src', import.meta.url));

import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('the scripts that the first page loads are under 150 kB gzipped, and charts come later', () => {
  const html = readFileSync(join(portalDist, 'index.html'), 'utf8');
  const scripts = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map(([, path]) => path!);
  const bytes = scripts.reduce((sum, path) => sum + gzipSync(readFileSync(join(portalDist, path))).length, 0);
  expect(scripts.length).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(150_000);
  expect(scripts.some((path) => path.includes('chart'))).toBe(false);
  expect(readdirSync(join(portalDist, 'assets')).some((name) => name.startsWith('bar-chart'))).toBe(true);
});

test('the portal answers at / whatever is accepted; at deeper addresses browsers get pages and programs get JSON', async () => {
  const answerTo = async (method: string, path: string, accept: string) => {
    const answer = await fetch(portal.url + path, { method, headers: { accept } });
    return [answer.status, answer.headers.get('content-type')];
  };
  const page = [200, 'text/html; charset=utf-8'];
  expect(await answerTo('GET', '/', '*/*')).toEqual(page);
  expect(await answerTo('HEAD', '/', '*/*')).toEqual(page);
  expect(await answerTo('GET', '/keys?create=1', 'text/html,*/*')).toEqual(page);
  expect(await answerTo('GET', '/keys', '*/*')).toEqual([404, 'application/json; charset=utf-8']);
});

test('no file of a component is longer than 250 lines', () => {
  const sources = readdirSync(portalSources, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.tsx'),
  );
  expect(sources.length).toBeGreaterThan(50);
  const lines = (name: string) => readFileSync(join(portalSources, name), 'utf8').split('\n').length - 1;
  expect(sources.filter((name) => lines(name) > 250)).toEqual([]);
});

test('the checks notice what they are for: an inline style, and text without contrast', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await page.evaluate(`
    document.head.append(Object.assign(document.createElement('style'), { textContent: 'h1 { color: red }' }));
    document.querySelector('h1').style.color = 'rgb(230 230 228)';
  `);
  await expect.poll(() => troubles.join()).toContain('CSP style-src');
  expect((await seriousFindings(page)).join()).toContain('color-contrast');
  await close();
});

test('the palette goes to a page, a key and an action with a few letters and no mouse', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner);
  await page.getByRole('heading', { name: 'Hello, Olga' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('rate li');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('nightly');
  await page.getByRole('option', { name: /Nightly evaluation/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Nightly evaluation' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('dark theme');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  await page.reload();
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  await close();
});

test('the palette finds a key by words in any order and by what it is, as it finds pages, and a model whose accents are apart', async () => {
  const { page, close } = await openPage(browser);
  // As a file's name on a Mac spells it.
  const name = 'Gelée'.normalize('NFD');
  await page.route('**/api/v1/models?search=Gel*', async (route) => {
    const answer = await route.fetch({ url: `${portal.url}/api/v1/models` });
    const [model] = (await answer.json()).data;
    await route.fulfill({ response: answer, json: { data: [{ ...model, id: name, display_name: name }] } });
  });
  await signIn(page, portal.url, users.owner);
  await page.keyboard.press('Control+k');
  for (const text of ['evaluation nightly', 'key nightly', 'nig eval']) {
    await page.getByRole('combobox').fill(text);
    await page.getByRole('option', { name: /Nightly evaluation/ }).waitFor({ timeout: 5_000 });
  }
  await page.getByRole('combobox').fill('Gelée');
  await page.getByRole('option', { name: new RegExp(name) }).waitFor({ timeout: 5_000 });
  await close();
});

test('what is chosen in the palette stays chosen when more is found, which may come before it', async () => {
  const { page, close } = await openPage(browser);
  const answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/api-keys?search=ember*', async (route) => {
    const response = await route.fetch({ url: `${portal.url}/api/v1/api-keys` });
    const list = await response.json();
    await answer.promise;
    await route.fulfill({ response, json: { ...list, data: [{ ...list.data[0], name: 'Late ember' }] } });
  });
  await signIn(page, portal.url, users.owner);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('ember');
  await page
    .getByRole('option', { name: /Model$/ })
    .first()
    .waitFor();
  await page.keyboard.press('ArrowDown');
  const chosen = page.getByRole('option', { selected: true });
  const name = (await chosen.innerText()).replace(/\s+Model$/, '');
  answer.resolve();
  await page.getByRole('option', { name: /Late ember/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor({ timeout: 5_000 });
  await close();
});

test('Enter that only ends the composition of a word, as in Japanese, runs nothing in the palette', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  await page.getByRole('heading', { name: 'API keys' }).waitFor();
  await page.keyboard.press('Control+k');
  const field = page.getByRole('combobox');
  await field.fill('usage');
  await field.dispatchEvent('keydown', { key: 'Enter', isComposing: true });
  expect(await field.inputValue()).toBe('usage');
  await field.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  await close();
});

test('whoever signs out by the palette is told when that did not work: they are still signed in', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  await page.getByRole('heading', { name: 'API keys' }).waitFor();
  await page.route('**/api/v1/auth/logout', (route) => route.abort());
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').fill('sign out');
  await page.keyboard.press('Enter');
  await page.getByText('The gateway cannot be reached. Check your connection.').first().waitFor();
  await close();
});

test('the palette leads an operator to the customer of an address, an id or a call, to an invoice, and to any organization by a few letters of its name', async () => {
  const { page, close } = await openPage(browser);
  const { owner, tenantId } = portal.world.people;
  const { json: calls } = await portal.gateway.call('GET', '/api/v1/usage/history?limit=1', owner.token);
  await signIn(page, portal.url, users.operator);
  const find = async (text: string, name: string, heading: string) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill(text);
    await page.getByRole('option', { name }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
  };
  await find(users.member.email, users.member.email, 'Northwind Robotics');
  await page.getByRole('row').filter({ hasText: users.member.email }).waitFor();
  await find(calls.data[0].request_id, 'Request req_', 'Calls');
  await page.getByRole('row').filter({ hasText: 'Northwind Robotics' }).waitFor();
  await find(tenantId, 'Northwind Robotics', 'Northwind Robotics');
  const number = portal.world.invoiceNumber;
  await find(number.toLowerCase(), `Invoice ${number}`, number);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('contos');
  await page.getByRole('option', { name: 'Contoso Labs' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Contoso Labs' }).waitFor();
  expect(new URL(page.url()).pathname).toMatch(/^\/operator\/organizations\/[-\da-f]{36}$/);
  await close();
});

test('the palette leads an admin to a teammate by their address and to a request and a job by their ids', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.admin);
  const find = async (text: string, name: string) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill(text);
    await page.getByRole('option', { name }).waitFor();
    await page.keyboard.press('Enter');
  };
  await find(users.member.email, users.member.email);
  await page.getByRole('row').filter({ hasText: users.member.email }).waitFor();
  await find('req_unknown', 'Request req_unknown');
  await page.getByText('No request has this id').waitFor();
  await page.getByText('Searched: everyone in your organization.').waitFor();
  await find(`job_${'0'.repeat(32)}`, 'Job job_');
  await page.getByRole('heading', { level: 1, name: 'Job' }).waitFor();
  await close();
});

test('what is typed into the palette as soon as a page is there is not lost to that page’s title, which takes the focus later', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner);
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  await goWithin(page, '/limits');
  await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('dark ');
  await page.clock.runFor(1_000);
  await page.keyboard.type('theme');
  expect(await page.getByRole('combobox').inputValue()).toBe('dark theme');
  await close();
});

test('whoever has gone on into a new page before its title takes the focus stays there', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner);
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  await goWithin(page, '/usage');
  const weekly = page.getByRole('button', { name: 'Weekly' });
  await weekly.focus();
  await page.clock.runFor(1_000);
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Weekly');
  await close();
});

test('a theme chosen in one tab is shown in the others at once', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/settings');
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/settings`);
  for (const name of ['Dark', 'Light', 'System']) {
    await page.getByRole('button', { name, exact: true }).click();
    await other.getByRole('button', { name, exact: true, pressed: true }).waitFor({ timeout: 5_000 });
    const theme = () => other.evaluate('document.documentElement.dataset.theme');
    expect(await theme()).toBe(name === 'System' ? undefined : name.toLowerCase());
  }
  await close();
});

test('the current page is visible in the navigation, however low the screen is', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 1280, height: 480 } });
  await signIn(page, portal.url, users.operator, '/operator/signing-keys');
  const navigation = page.getByRole('navigation', { name: 'Main' });
  const current = navigation.locator('[aria-current]');
  const bottomOf = async (shown: Locator) => {
    const { y, height } = (await shown.boundingBox())!;
    return y + height;
  };
  for (const name of ['Signing keys', 'Organizations', 'Overview', 'Audit log']) {
    if (name === 'Overview') await navigation.getByRole('button', { name: 'Organization' }).click();
    if (name !== 'Signing keys') await navigation.getByRole('link', { name }).click();
    await current.filter({ hasText: name }).waitFor();
    await expect.poll(async () => (await bottomOf(current)) <= (await bottomOf(navigation))).toBe(true);
  }
  await close();
});

test('with forced colours, which remove backgrounds, selections, the current page, meters, buttons, the edges of dialogs and marks are still visible', async () => {
  const { page, close } = await openPage(browser, { forcedColors: 'active' });
  await signIn(page, portal.url, users.owner, '/limits');
  /** Whether the first elements matching two selectors differ in a property. */
  const differ = (property: string, one: string, other: string) =>
    page.evaluate(`(() => {
      const [one, other] = ${JSON.stringify([one, other])}.map((selector) => getComputedStyle(document.querySelector(selector)));
      return one.${property} !== other.${property};
    })()`);
  const backgroundsDiffer = (one: string, other: string) =>
    expect.poll(() => differ('backgroundColor', one, other)).toBe(true);
  await page.getByRole('meter').first().waitFor();
  await backgroundsDiffer('nav [aria-current]', 'nav a:not([aria-current])');
  await backgroundsDiffer('[role="meter"] > div', '[role="meter"]');
  expect(await differ('borderTopWidth', 'button[type="submit"]', 'main')).toBe(true);
  await goWithin(page, `/keys/${portal.world.keyId}`);
  await page.getByText('Active', { exact: true }).waitFor();
  // The dot of its status.
  await backgroundsDiffer('main .rounded-full', 'body');
  await goWithin(page, '/usage');
  await settled(page);
  await backgroundsDiffer('[aria-pressed="true"]', '[aria-pressed="false"]');
  expect(
    await differ('borderBottomColor', '[role="tab"][aria-selected="true"]', '[role="tab"][aria-selected="false"]'),
  ).toBe(true);
  await page.keyboard.press('Control+k');
  await backgroundsDiffer('[role="option"][aria-selected="true"]', '[role="option"][aria-selected="false"]');
  expect(await differ('borderTopWidth', '[role="dialog"]', 'main')).toBe(true);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /Olga Owner/ }).press('Enter');
  await backgroundsDiffer('[role="menuitem"][data-highlighted]', '[role="menuitem"]:not([data-highlighted])');
  expect(await differ('borderTopWidth', '[role="menu"]', 'main')).toBe(true);
  await close();
});

test('whoever asks their system for more contrast sees every edge, and no text fainter than another', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/limits');
  await page.getByRole('heading', { name: 'Rate limits' }).waitFor();
  const colours = () =>
    page.evaluate(`(() => {
      const { borderTopColor } = getComputedStyle(document.querySelector('main section'));
      const inks = new Set([...document.querySelectorAll('main :is(h1, h2, p)')].map((text) => getComputedStyle(text).color));
      return { edge: borderTopColor, inks: inks.size };
    })()`) as Promise<{ edge: string; inks: number }>;
  const usual = await colours();
  expect(usual.inks).toBeGreaterThan(1);
  await page.emulateMedia({ contrast: 'more' });
  const more = await colours();
  expect(more.inks).toBe(1);
  expect(more.edge).not.toBe(usual.edge);
  await close();
});

test('a model’s snippets name it, the gateway and the chosen language, and can be copied', async () => {
  const { page, close } = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
  await signIn(page, portal.url, users.member, '/models');
  await page.getByRole('link', { name: 'Ember 8B Fast' }).click();
  const block = page.getByRole('region', { name: /A call in/ });
  expect(await block.textContent()).toContain(`curl ${portal.url}/v1/chat/completions`);
  await page.getByRole('button', { name: 'Python' }).click();
  expect(await block.textContent()).toContain(`OpenAI(base_url="${portal.url}/v1"`);
  expect(await block.textContent()).toContain('model="acme/ember-8b:fast"');
  await block.getByRole('button', { name: 'Copy' }).click();
  await block.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toContain('model="acme/ember-8b:fast"');
  await close();
});

test('the page of a model leads to the playground only if that can try it, and to the requests that one has sent to it', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/models/sandbox-embed');
  const requests = page.getByRole('link', { name: 'Your requests' });
  const trying = page.getByRole('link', { name: 'Try it' });
  await requests.waitFor();
  expect(await trying.count()).toBe(0);
  await goWithin(page, '/models/acme%2Fember-8b%3Afast');
  await trying.waitFor();
  await requests.click();
  await expect.poll(() => page.getByLabel('Model', { exact: true }).inputValue()).toBe('acme/ember-8b:fast');
  await page.getByRole('table', { name: 'Requests' }).waitFor();
  await close();
});

test('the snippets of each operation run as shown, with curl and with Node', { timeout: 60_000 }, async () => {
  const { gateway, url, world } = portal;
  const { token } = world.people.owner;
  const { key } = (await gateway.call('POST', '/api/v1/api-keys', token, { name: 'of snippets' })).json;
  const models: { id: string; operations: string[] }[] = (await gateway.call('GET', '/api/v1/models', token)).json.data;
  // Inside node_modules, so that Node finds the client; a run that is killed leaves nothing to commit by mistake.
  const directory = mkdtempSync(join(import.meta.dirname, '../../node_modules/snippets-'));
  const run = (program: string, args: string[]) =>
    promisify(execFile)(program, args, { cwd: directory, env: { ...process.env, MODEL_GATEWAY_KEY: key } });
  try {
    const tone = Buffer.alloc(24_000 * 2).fill('tone');
    writeFileSync(join(directory, 'speech.pcm'), tone);
    writeFileSync(join(directory, 'speech.mp3'), Buffer.concat([wavHeader(tone.length, 24_000), tone]));
    const operations = new Map(
      models
        .filter(({ id }) => id.startsWith('sandbox-'))
        .flatMap(({ id, operations }) => operations.map((operation) => [operation, id] as const)),
    );
    expect(operations.size).toBe(8);
    for (const [operation, model] of operations) {
      writeFileSync(join(directory, 'call.mjs'), snippet('node', operation, model, url));
      const { stdout } = await run(process.execPath, ['call.mjs']);
      if (operation === 'audio_speech') continue;
      expect(stdout.trim(), operation).not.toBe('');
      // The socket needs a client that is not on every machine.
      if (operation === 'realtime_transcription') continue;
      const curl = await run('bash', ['-c', snippet('curl', operation, model, url)]);
      expect(curl.stdout, operation).toMatch(/^(\{|data: )/);
      expect(curl.stdout, operation).not.toMatch(/^\{"error"/);
    }
    // Not a file of the reader's, as curl takes what begins with an @.
    const named = "@cf/it's;type=whisper";
    const { stdout } = await run('bash', ['-c', snippet('curl', 'audio_transcriptions', named, url)]);
    expect(JSON.parse(stdout).error.message).toContain(named);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('a retiring model says so, with its countdown, its date once, its replacement and its page', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, `/models/${encodeURIComponent('acme/ember-2')}`);
  await page.getByText('Retiring · 24 days left').or(page.getByText('Retiring · 23 days left')).first().waitFor();
  const notice = page
    .locator('main p, main div')
    .filter({ hasText: /^This model is retiring\..* Use acme\/ember-70b instead\.$/ });
  expect((await notice.last().textContent())!.match(/\b20\d\d\b/g)).toHaveLength(1);
  const opened = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Retirement page' }).click();
  const retirement = await opened;
  await retirement.getByText('acme/ember-70b').first().waitFor();
  await page.goto(`${portal.url}/models/${encodeURIComponent('acme/spark')}`);
  // The operator's text comes last, since nobody knows how it ends.
  await page
    .getByText(/serves every request unchanged\. No date has been set yet\. The provider stops; there is no equal\.$/)
    .waitFor();
  expect(await page.getByText('days left').count()).toBe(0);
  await close();
});

test('a private model that retires says so without a link to the public page, which does not know it', async () => {
  const { gateway, url } = portal;
  const operator = await gateway.login(users.operator);
  const announcement = { model: 'voice/speak', retirement_note: 'The voice left.' };
  expect((await gateway.call('POST', '/api/v1/admin/retirements', operator, announcement)).status).toBe(201);
  const { page, close } = await openPage(browser);
  await signIn(page, url, users.member, `/models/${encodeURIComponent('voice/speak')}`);
  await page.getByText(/No date has been set yet\. The voice left\.$/).waitFor();
  expect(await page.getByRole('link', { name: 'Retirement page' }).count()).toBe(0);
  await gateway.call('DELETE', `/api/v1/admin/retirements/${encodeURIComponent('voice/speak')}`, operator);
  await close();
});

test('an empty page teaches what to do', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/keys');
  await page.getByText('No keys yet').waitFor();
  await page.getByRole('button', { name: 'Create your first key' }).waitFor();
  await goWithin(page, '/jobs');
  await page.getByText('No jobs yet').waitFor();
  const snippet = page.getByRole('region', { name: 'A background call' });
  expect(await snippet.textContent()).toContain('"background":true');
  // The first of the models is retiring.
  await expect.poll(() => snippet.textContent()).toContain('"model":"acme/ember-70b"');
  await goWithin(page, '/billing');
  await page.getByText('No credit left').waitFor();
  expect(await page.locator('dt', { hasText: 'Next to expire' }).locator('xpath=../dd').innerText()).toBe('—');
  await close();
});

test('the file of a page is fetched while it is still unknown whether someone is signed in', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/auth/refresh', () => {});
  const fetched = page.waitForRequest(/\/assets\/overview-.*\.js/);
  await page.goto(portal.url, { waitUntil: 'commit' });
  await fetched;
  await close();
});

test('while an answer is on its way, a page already has its title and shows skeletons', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/nothing-here');
  await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  let answer = Promise.withResolvers<void>();
  await page.route('**/api/**', async (route) => {
    await answer.promise;
    await route.continue();
  });
  const wrong: string[] = [];
  for (const path of ['/models', '/keys', '/jobs', '/usage', '/billing', '/limits', '/organization', '/audit']) {
    answer = Promise.withResolvers<void>();
    await goWithin(page, path);
    await page.getByRole('heading', { name: 'Page not found' }).waitFor({ state: 'detached' });
    await page.getByRole('main').getByRole('status', { name: 'Loading' }).first().waitFor();
    if (((await page.locator('h1').textContent()) ?? '') === '') wrong.push(`${path}: no title`);
    answer.resolve();
    await settled(page);
    await goWithin(page, '/nothing-here');
  }
  expect(wrong).toEqual([]);
  await close();
});

test('tables and events are exported as CSV that spreadsheets read as UTF-8, in which a name cannot become a formula', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, `/keys/${portal.world.keyId}`);
  const csvOf = async (button: string) => {
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: button }).first().click();
    const text = readFileSync(await (await download).path(), 'utf8');
    expect(text[0]).toBe('\ufeff');
    return text.slice(1);
  };
  const analytics = (await csvOf('CSV')).trim().split('\r\n');
  expect(analytics[0]).toMatch(/^bucket_start,requests,/);
  expect(analytics).toHaveLength(8);
  await goWithin(page, '/usage?scope=tenant');
  const events = await csvOf('Export');
  expect(events).toMatch(/^id,occurred_at,/);
  expect(events.split('\n').length).toBeGreaterThan(50);
  await close();
});
