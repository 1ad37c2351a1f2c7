import { afterAll, beforeAll, expect, test } from 'vitest';
import { builtPortal } from '../../edge/portal/build.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway({ portal: builtPortal() });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const page = (path: string) => fetch(gateway.url + path, { headers: { accept: 'text/html' } });

const policy = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
];

test('no page of the portal runs inline scripts or scripts from elsewhere, or can be framed', async () => {
  const index = await (await page('/')).text();
  const scripts = [...index.matchAll(/(?:src|href)="(\/[^"]+\.js)"/g)].map(([, path]) => path!);
  expect(scripts.length).toBeGreaterThan(0);
  for (const path of ['/', '/index.html', '/keys', '/operator/organizations', '/no-such-page', ...scripts]) {
    const { status, headers } = await page(path);
    expect([path, status]).toEqual([path, 200]);
    expect(headers.get('content-security-policy')?.split('; '), path).toEqual(policy);
    // For browsers that do not know frame-ancestors.
    expect(headers.get('x-frame-options'), path).toBe('DENY');
  }
});
