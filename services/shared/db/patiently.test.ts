import { expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { StartError } from '#shared/start-error.ts';
import { patiently } from './patiently.ts';

const away = () => gatewayError(ErrorReason.OVERLOADED, 'Try again.');
const late = () => gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'The gateway did not answer in time.');

test.each([
  ['is away', away],
  ['does not answer in time', late],
])('a start whose database %s goes on once it is there', async (_what, failure) => {
  let tries = 0;
  const work = async () => {
    tries += 1;
    if (tries < 3) throw failure();
    return 'started';
  };
  expect(await patiently(work)).toBe('started');
  expect(tries).toBe(3);
});

test('a start fails in one line if the database stays away, and at once for any other reason', async () => {
  await expect(patiently(() => Promise.reject(away()), 150)).rejects.toThrow(
    new StartError(
      'The database or a service was out of reach or too slow for 0.15 s during the start (Try again.): fix that and start again.',
    ),
  );
  const locked = new Error('canceling statement due to statement timeout');
  const refused = () => gatewayError(ErrorReason.OVERLOADED, 'Try again.', { cause: locked });
  await expect(patiently(() => Promise.reject(refused()), 150)).rejects.toThrow(`(${locked.message})`);
  let tries = 0;
  const broken = async () => {
    tries += 1;
    throw new Error('relation "users" does not exist');
  };
  await expect(patiently(broken)).rejects.toThrow('does not exist');
  expect(tries).toBe(1);
});
