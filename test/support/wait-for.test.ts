import { expect, test } from 'vitest';
import { startStopwatch } from './stopwatch.ts';
import { waitFor } from './wait-for.ts';

test('returns what the condition returns, as soon as it is truthy', async () => {
  let looks = 0;
  expect(await waitFor(() => ++looks === 3 && `look ${looks}`, { description: 'the third look' })).toBe('look 3');
});

test('a condition that throws is checked again', async () => {
  let looks = 0;
  const condition = async () => {
    if (++looks < 3) throw new Error('not yet');
    return looks;
  };
  expect(await waitFor(condition, { description: 'no more errors' })).toBe(3);
});

test('a failure says what was waited for, how long, and what was seen last', async () => {
  const never = waitFor(() => null, { description: 'rain', timeoutMs: 20 });
  await expect(never).rejects.toThrow('waited 20 ms for rain; last seen: null');
  const broken = () => {
    throw new TypeError('no sky');
  };
  await expect(waitFor(broken, { description: 'rain', timeoutMs: 20 })).rejects.toThrow('TypeError: no sky');
});

test('a long wait checks less often, and notices a change within a tenth of the time', async () => {
  let looks = 0;
  const startedMs = performance.now();
  using watch = startStopwatch();
  await waitFor(() => ++looks > 0 && performance.now() - startedMs > 400, { description: '400 ms to pass' });
  // Every 5 ms it would be 80.
  expect(looks).toBeLessThan(45);
  expect(watch.ms).toBeLessThan(500);
});
