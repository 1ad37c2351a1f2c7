import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { Signal } from './signal.ts';

const never = new AbortController().signal;

test('a wait ends by its signal, its time or its abort', async () => {
  const signal = new Signal();
  const raised = Promise.all([signal.next(60_000, never), signal.next(60_000, never)]);
  expect(await Promise.race([raised, new Promise((resolve) => setImmediate(resolve, 'waiting'))])).toBe('waiting');
  signal.raise();
  await raised;
  await signal.next(1, never);
  const aborting = new AbortController();
  const aborted = signal.next(60_000, aborting.signal);
  aborting.abort();
  await aborted;
  await signal.next(60_000, aborting.signal);
});

test('a signal that is never raised retains nothing of waits that have ended', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const signal = new Signal();
  const waitOften = async (times: number): Promise<number> => {
    for (let count = 0; count < times; count += 1) {
      const aborting = new AbortController();
      const waited = signal.next(60_000, aborting.signal);
      aborting.abort();
      await waited;
    }
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await waitOften(1_000);
  expect((await waitOften(50_000)) - before).toBeLessThan(2_000_000);
});
