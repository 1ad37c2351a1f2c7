import { expect, test } from 'vitest';
import { addressSource } from './login-backoff.ts';

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:DB8:1:2::9', '2001:db8:1:2'],
  ['2001:0db8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::', 'fe80:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::ffff:c000:207', '192.0.2.7'],
])('failures from %s are counted for %s', (ip, source) => {
  expect(addressSource(ip)).toBe(source);
});
