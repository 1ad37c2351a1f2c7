import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#shared/clock.ts';
import { installErrors } from '../http/errors.ts';
import { servePortal } from './serve.ts';

let folder: string;
let app: FastifyInstance;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'portal-'));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<title>One</title>');
  writeFileSync(join(folder, 'assets', 'index-1.js'), '1');
  app = fastify();
  await servePortal(app, folder);
  installErrors(app, systemClock, true);
});
afterEach(async () => {
  await app.close();
  rmSync(folder, { recursive: true });
});

const get = (url: string) => app.inject({ url, headers: { accept: 'text/html' } });

test('a file that only another version of the portal has is not remembered as missing', async () => {
  const kept = await get('/assets/index-1.js');
  expect([kept.statusCode, kept.headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable']);
  const missing = await get('/assets/index-2.js');
  expect([missing.statusCode, missing.headers['cache-control']]).toEqual([404, 'no-store']);
});
