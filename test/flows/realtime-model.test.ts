import fc from 'fast-check';
import { afterAll, beforeAll, test } from 'vitest';
import type { InferenceBench } from '../support/inference.ts';
import { randomHistories } from '../support/random-histories.ts';
import { act } from '../support/realtime/acts.ts';
import { History, startHistoryBench } from '../support/realtime/history.ts';

const histories = randomHistories('REALTIME', 10);

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startHistoryBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

test(
  'whatever is said to realtime sessions, each utterance is heard as it was said, transcribed once and metered once, and leaves nothing held',
  async () => {
    await histories.assert(
      fc.asyncProperty(fc.array(act, { minLength: 8, maxLength: 25 }), async (acts) => {
        await using history = new History(bench);
        await history.begin();
        for (const one of acts) await history.perform(one);
        await history.finish();
      }),
    );
  },
  histories.timeoutMs,
);
