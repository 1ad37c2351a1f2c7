import { once } from 'node:events';
import { expect, test } from 'vitest';
import { systemClock } from '#shared/clock.ts';
import { createLogger } from '#shared/logger.ts';
import { followFeed } from './feed-follower.ts';

const deps = { clock: systemClock, logger: createLogger({ level: 'silent', name: 'test' }) };

test('an edge says goodbye after its last acknowledgement, which would otherwise begin a new lease', async () => {
  const order: string[] = [];
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const follower = followFeed(
    {
      name: 'test',
      async *watch(signal) {
        yield { version: 1n };
        if (!signal.aborted) await once(signal, 'abort');
      },
      async acknowledge() {
        asked.resolve();
        await answer.promise;
        order.push('acknowledged');
        return { leaseMs: 2_000, rewatch: false };
      },
      async leave() {
        order.push('left');
      },
      apply: () => {},
    },
    deps,
  );
  await asked.promise;
  const closed = follower.close();
  // Everything that could be done without the answer has been done by then.
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  answer.resolve();
  await closed;
  expect(order).toEqual(['acknowledged', 'left']);
});

test('nor does it say goodbye before an acknowledgement of a stream that has ended meanwhile', async () => {
  const order: string[] = [];
  const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const askedAgain = Promise.withResolvers<void>();
  let asked = 0;
  const follower = followFeed(
    {
      name: 'test',
      async *watch(signal) {
        yield { version: 1n };
        if (asked === 2) await once(signal, 'abort');
      },
      async acknowledge() {
        const place = asked++;
        if (place === 1) askedAgain.resolve();
        await answers[place]!.promise;
        order.push(`acknowledged ${place}`);
        return { leaseMs: 2_000, rewatch: false };
      },
      async leave() {
        order.push('left');
      },
      apply: () => {},
    },
    deps,
  );
  await askedAgain.promise;
  const closed = follower.close();
  answers[1]!.resolve();
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  answers[0]!.resolve();
  await closed;
  expect(order).toEqual(['acknowledged 1', 'acknowledged 0', 'left']);
});
