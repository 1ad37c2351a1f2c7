import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { installErrors } from '../http/errors.ts';
import { beginAnswer } from '../http/own-answers.ts';
import { servePortal } from './serve.ts';

let folder: string;
let app: FastifyInstance;
beforeEach(async () => {
  // The name says nothing about what is in it.
  folder = join(mkdtempSync(join(tmpdir(), 'portal-')), 'assets', 'dist');
  mkdirSync(join(folder, 'assets'), { recursive: true });
  writeFileSync(join(folder, 'index.html'), '<title>One</title>');
  writeFileSync(join(folder, 'assets', 'index-1.js'), '1');
  await start();
});
afterEach(async () => {
  await app.close();
  rmSync(join(folder, '../..'), { recursive: true });
});

/** Serves what is in the folder now. */
async function start(): Promise<void> {
  await app?.close();
  app = fastify();
  app.addHook('onRequest', (request, reply, done) => done(beginAnswer(request, reply)));
  installErrors(app, servePortal(app, folder));
}

const get = (url: string, headers: Record<string, string> = {}) =>
  app.inject({ url, headers: { accept: 'text/html', ...headers } });

test('a file that only another version of the portal has is not remembered as missing', async () => {
  const kept = await get('/assets/index-1.js');
  expect([kept.statusCode, kept.headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable']);
  // While a balancer has both versions behind it, the next request may reach the other one.
  const missing = await get('/assets/index-2.js');
  expect([missing.statusCode, missing.headers['cache-control']]).toEqual([404, 'no-store']);
});

test('what a process started with is served until its end, whatever is built in its place meanwhile', async () => {
  const page = await get('/');
  rmSync(join(folder, 'assets'), { recursive: true });
  writeFileSync(join(folder, 'index.html'), '<title>Two</title>');
  for (const url of ['/', '/keys', '/index.html']) expect((await get(url)).body, url).toBe(page.body);
  expect((await get('/assets/index-1.js')).body).toBe('1');
});

test('a page is requested anew at each visit, and sent again if it has changed, even with the same size and time', async () => {
  const time = new Date();
  utimesSync(join(folder, 'index.html'), time, time);
  await start();
  const { headers, body } = await get('/');
  expect(headers).toMatchObject({ 'cache-control': 'no-cache', 'content-type': 'text/html; charset=utf-8' });
  const again = () => get('/', { 'if-none-match': `W/${headers.etag}` });
  expect([(await again()).statusCode, (await again()).body]).toEqual([304, '']);
  writeFileSync(join(folder, 'index.html'), body.replace('One', 'Two'));
  utimesSync(join(folder, 'index.html'), time, time);
  await start();
  expect([(await again()).statusCode, (await again()).body]).toEqual([200, '<title>Two</title>']);
});

test('a file is sent compressed to whoever takes gzip, plain to others, and as itself to caches', async () => {
  const zipped = await get('/', { 'accept-encoding': 'gzip, deflate, br' });
  const plain = await get('/', { 'accept-encoding': 'br, gzip;q=0' });
  expect([zipped.headers['content-encoding'], plain.headers['content-encoding']]).toEqual(['gzip', undefined]);
  expect(gunzipSync(zipped.rawPayload).toString()).toBe(plain.body);
  expect([zipped.headers.vary, plain.headers.vary]).toEqual(['accept-encoding', 'accept-encoding']);
  const again = { 'accept-encoding': 'gzip', 'if-none-match': String(zipped.headers.etag) };
  expect((await get('/', again)).statusCode).toBe(304);
  expect((await get('/', { ...again, 'accept-encoding': 'identity' })).statusCode).toBe(200);
});
