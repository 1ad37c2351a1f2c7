import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startStopwatch } from './stopwatch.ts';

test('counts in full the time in which this process works', () => {
  using watch = startStopwatch();
  const startedMs = performance.now();
  const { user } = process.cpuUsage();
  while (process.cpuUsage().user - user < 100_000);
  // Its other threads, such as the collector's, may have done part of it at the same time.
  const workedMs = Math.min(100, performance.now() - startedMs);
  expect(watch.ms).toBeGreaterThanOrEqual(workedMs);
});

test('counts waiting, except while the machine kept this process from running', async () => {
  const startedMs = performance.now();
  using watch = startStopwatch();
  for (let times = 0; times < 20; times++) await delay(5);
  expect(watch.ms).toBeGreaterThan(50);
  expect(watch.ms).toBeLessThanOrEqual(performance.now() - startedMs);
});

test.runIf(process.platform !== 'win32')('stands still while the process does', async () => {
  // Stopped by a signal, as if the machine had other work.
  using watch = startStopwatch();
  const waker = spawn('/bin/sh', ['-c', `kill -STOP ${process.pid}; sleep 1; kill -CONT ${process.pid}`]);
  await once(waker, 'close');
  expect(watch.ms).toBeLessThan(900);
});
