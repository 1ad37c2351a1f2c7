import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/jobs/acts.ts';
import { startHistory } from '../support/jobs/history.ts';
import { randomHistories } from '../support/random-histories.ts';

const histories = randomHistories('JOBS', 1);

test(
  'whatever happens to jobs, their keys, models and workers, each ends as it should, is charged once or not at all, and leaves nothing held',
  async () => {
    await histories.assert(
      fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 50 }), async (acts) => {
        await using history = await startHistory();
        for (const one of acts) {
          await history.perform(one);
          await history.compare();
        }
        await history.end();
      }),
    );
  },
  histories.timeoutMs,
);
