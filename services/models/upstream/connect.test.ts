import { expect, test } from 'vitest';
import { environmentSecrets } from './connect.ts';

test.each([
  ['env:UPSTREAM_OTHER_KEY', 'the upstream’s'],
  ['env:UPSTREAM_MISSING', undefined],
  ['env:SERVICE_SECRET', undefined],
  ['file:/etc/passwd', undefined],
])('%s is sent to an upstream only if it names a secret of upstreams', (reference, secret) => {
  const secretOf = environmentSecrets({ UPSTREAM_OTHER_KEY: 'the upstream’s', SERVICE_SECRET: 'the gateway’s' });
  expect(secretOf(reference)).toBe(secret);
});
