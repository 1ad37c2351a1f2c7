import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { startSummary } from './start-summary.ts';

test('the sign-in to paste sends the address as it is, apostrophes and all', () => {
  const email = "o'brien@example.com";
  const summary = startSummary({
    url: 'http://localhost',
    rpcUrl: 'http://localhost',
    first: { email, password: undefined } as never,
    dataDir: '.data',
    embedded: true,
  });
  const pasted = `curl() { echo "$@" >&2; }\n${summary.slice(summary.indexOf('  TOKEN='))}`;
  const told = execFileSync('sh', ['-c', `(${pasted}) 2>&1`], { encoding: 'utf8' });
  expect(told).toContain(`-d {"email":"${email}","password":"YOUR_PASSWORD"}`);
});
