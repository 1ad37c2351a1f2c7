import { once } from 'node:events';
import { expect, test } from 'vitest';
import { followStream } from './follow-stream.ts';

test('a stream that breaks off again and again is logged, even if something arrives each time', async () => {
  const told = Promise.withResolvers<unknown[]>();
  let opened = 0;
  const following = followStream<string>({
    name: 'the feed',
    async *open(signal) {
      opened += 1;
      yield 'first';
      if (opened < 3) throw new Error('broken');
      await once(signal, 'abort');
    },
    onMessage: () => true,
    logger: { debug() {}, info() {}, warn: (...line: unknown[]) => told.resolve(line) },
  });
  expect(await told.promise).toEqual([{ err: new Error('broken'), failures: 2 }, 'the feed broke off; reopening it']);
  await following.close();
});

test('a stream that breaks off at each first message, as one that cannot be handled, is reopened less and less often', async () => {
  const openedMs: number[] = [];
  const fourth = Promise.withResolvers<void>();
  const following = followStream<string>({
    name: 'the feed',
    async *open() {
      openedMs.push(performance.now());
      if (openedMs.length === 4) fourth.resolve();
      yield 'unreadable';
    },
    onMessage() {
      throw new Error('not understood');
    },
    logger: { debug() {}, info() {}, warn() {} },
  });
  await fourth.promise;
  await following.close();
  expect(openedMs[3]! - openedMs[2]!).toBeGreaterThan(70);
});
