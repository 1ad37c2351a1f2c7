import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/jobs/acts.ts';
import { startHistory } from '../support/jobs/history.ts';

/** This many gate every merge; `JOBS_HISTORIES=200` is a night's work. */
const histories = Number(process.env.JOBS_HISTORIES ?? 1);
/** What a failed run prints, to have it again. */
const seed = process.env.JOBS_SEED;

test('whatever becomes of jobs, their keys, their models and their workers, each ends as it should, is charged once or not at all, and leaves nothing held', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 50 }), async (acts) => {
      await using history = await startHistory();
      for (const one of acts) {
        await history.perform(one);
        await history.compare();
      }
    }),
    {
      numRuns: histories,
      ...(seed !== undefined && { seed: Number(seed) }),
      // Shrinking takes minutes: with JOBS_SEED it is done, without it a failure only tells its seed.
      endOnFailure: seed === undefined,
    },
  );
}, 6_000_000);
