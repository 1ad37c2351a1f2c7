import { once } from 'node:events';
import { expect, test } from 'vitest';
import { systemClock } from '#shared/clock.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { followFeed } from './feed-follower.ts';

/**
 * A follower of a feed whose streams, but for the last of as many as there are answers, end after one event. Each acknowledgement waits for
 * its answer.
 */
function followed(answers: readonly PromiseWithResolvers<void>[]) {
  const order: string[] = [];
  const allAsked = Promise.withResolvers<void>();
  let asked = 0;
  const follower = followFeed(
    {
      name: 'test',
      async *watch(signal) {
        yield { version: 1n };
        if (asked === answers.length && !signal.aborted) await once(signal, 'abort');
      },
      async acknowledge() {
        const place = asked++;
        if (asked === answers.length) allAsked.resolve();
        await answers[place]!.promise;
        order.push(`acknowledged ${place}`);
        return { leaseMs: 2_000, rewatch: false };
      },
      async leave() {
        order.push('left');
      },
      apply: () => {},
    },
    { clock: systemClock, logger: silentLogger },
  );
  return { follower, order, allAsked: allAsked.promise };
}

/** By its end everything that can be done without another answer has been done. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

test('an edge says goodbye after its last acknowledgement, which would otherwise begin a new lease', async () => {
  const answer = Promise.withResolvers<void>();
  const { follower, order, allAsked } = followed([answer]);
  await allAsked;
  const closed = follower.close();
  await turns();
  answer.resolve();
  await closed;
  expect(order).toEqual(['acknowledged 0', 'left']);
});

test('nor does it say goodbye before an acknowledgement of a stream that has ended meanwhile', async () => {
  const [former, latest] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { follower, order, allAsked } = followed([former, latest]);
  await allAsked;
  const closed = follower.close();
  latest.resolve();
  await turns();
  former.resolve();
  await closed;
  expect(order).toEqual(['acknowledged 1', 'acknowledged 0', 'left']);
});
