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
