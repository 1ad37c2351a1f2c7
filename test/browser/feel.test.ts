import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { portalDist } from '../../edge/portal/build.ts';
import { seriousFindings } from './support/axe.ts';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type Portal, startPortal, users } from './support/portal.ts';

const portalSources = fileURLToPath(new URL('../../edge/portal/src', import.meta.url));

let portal: Portal;
let browser: Browser;
beforeAll(async () => {
  [portal, browser] = await Promise.all([startPortal(), launchBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await portal?.[Symbol.asyncDispose]();
});

test('what the first page loads of scripts is under 150 kB gzipped, and charts come later', () => {
  const html = readFileSync(join(portalDist, 'index.html'), 'utf8');
  const scripts = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map(([, path]) => path!);
  const bytes = scripts.reduce((sum, path) => sum + gzipSync(readFileSync(join(portalDist, path))).length, 0);
  expect(scripts.length).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(150_000);
  expect(scripts.some((path) => path.includes('chart'))).toBe(false);
  expect(readdirSync(join(portalDist, 'assets')).some((name) => name.startsWith('bar-chart'))).toBe(true);
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

test('the palette goes to a page, a key and an action by a few letters and no mouse', async () => {
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

test('a change of page moves the focus to its title, and back and forth work', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.getByRole('link', { name: 'Models' }).click();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Models');
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await page.goForward();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
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
