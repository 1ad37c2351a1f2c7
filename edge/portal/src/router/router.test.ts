import { expect, test } from 'vitest';
import { matchPath } from './router.ts';

test('the name of a model in an address is read, and an id in one stays a single step of the path that it is put into', () => {
  expect(matchPath('/models/*id', '/models/acme%2Flarge:v2%20%25')).toEqual({ id: 'acme/large:v2 %' });
  expect(matchPath('/models/*id', '/models/acme/large%')).toEqual({ id: 'acme/large%' });
  const { id } = matchPath('/keys/:id', '/keys/x%2F..%2F..%2Fprofile')!;
  expect(new URL(`/api/v1/api-keys/${id}`, 'http://gateway.test').pathname).toMatch(/^\/api\/v1\/api-keys\/[^/]+$/);
});
