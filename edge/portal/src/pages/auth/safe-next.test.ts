import { expect, test } from 'vitest';
import { safeNext } from './safe-next.ts';

test.each([
  'https://evil.example',
  '//evil.example',
  '/\\evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  'javascript:alert(1)',
])('signing in never leads out of the portal: %j', (next) => {
  expect(safeNext(next)).toBe('/');
});

test('signing in leads on to any address inside the portal but its own', () => {
  expect(safeNext('/keys?type=management#list')).toBe('/keys?type=management#list');
  expect(safeNext('/sign-in?next=/keys')).toBe('/');
  expect(safeNext(null)).toBe('/');
});
