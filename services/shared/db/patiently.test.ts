import { expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { patiently } from './patiently.ts';

const away = () => gatewayError(ErrorReason.OVERLOADED, 'Try again.');

test('a start goes on once the database is there', async () => {
  let tries = 0;
  const work = async () => {
    tries += 1;
    if (tries < 3) throw away();
    return 'started';
  };
  expect(await patiently(work)).toBe('started');
  expect(tries).toBe(3);
});

test('a start fails when the database stays away, and at once for any other reason', async () => {
  await expect(patiently(() => Promise.reject(away()), 150)).rejects.toThrow('Try again.');
  let tries = 0;
  const broken = async () => {
    tries += 1;
    throw new Error('relation "users" does not exist');
  };
  await expect(patiently(broken)).rejects.toThrow('does not exist');
  expect(tries).toBe(1);
});
