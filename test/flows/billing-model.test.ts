import fc from 'fast-check';
import { test } from 'vitest';
import { act, start, zone } from '../support/billing/acts.ts';
import { startHistory } from '../support/billing/history.ts';

/** This many gate every merge; `BILLING_HISTORIES=200` is a night's work. */
const histories = Number(process.env.BILLING_HISTORIES ?? 3);
/** What a failed run prints, to have it again. */
const seed = process.env.BILLING_SEED;

test('whatever happens to an organization, each answer about its money is what plain arithmetic over the specification gives', async () => {
  await fc.assert(
    fc.asyncProperty(start, fc.array(act, { minLength: 15, maxLength: 40 }), zone, async (begins, acts, timeZone) => {
      await using history = await startHistory(begins);
      for (const one of acts) {
        await history.perform(one);
        await history.compareBalances();
      }
      await history.compareDocuments();
      await history.compareUsage(timeZone);
    }),
    {
      numRuns: histories,
      ...(seed !== undefined && { seed: Number(seed) }),
      // Shrinking takes minutes: with BILLING_SEED it is done, without it a failure only tells its seed.
      endOnFailure: seed === undefined,
    },
  );
}, 600_000);
