import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/catalog/acts.ts';
import { startHistory } from '../support/catalog/history.ts';

/** This many gate every merge; `CATALOG_HISTORIES=200` is a night's work. */
const histories = Number(process.env.CATALOG_HISTORIES ?? 1);
/** What a failed run prints, to have it again. */
const seed = process.env.CATALOG_SEED;

test('whatever operators do to models, grants, deployments and retirements, each organization meets what it may know of, and nothing else', async () => {
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
      // Shrinking takes minutes: with CATALOG_SEED it is done, without it a failure only tells its seed.
      endOnFailure: seed === undefined,
    },
  );
}, 600_000);
