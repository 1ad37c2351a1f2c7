import fc from 'fast-check';
import { afterAll, beforeAll, test } from 'vitest';
import { calls } from '../support/calls/acts.ts';
import { History, startCallsBench } from '../support/calls/history.ts';
import type { InferenceBench } from '../support/inference.ts';
import { randomHistories } from '../support/random-histories.ts';

const histories = randomHistories('CALLS', 10);

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startCallsBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

test(
  'however upstreams answer calls and clients leave them, each answer is reported as it was or as broken, metered once, and leaves nothing held',
  async () => {
    await histories.assert(
      fc.asyncProperty(fc.array(calls, { minLength: 3, maxLength: 8 }), async (groups) => {
        await using history = new History(bench);
        await history.begin();
        for (const group of groups) await history.perform(group);
        await history.finish();
      }),
    );
  },
  histories.timeoutMs,
);
