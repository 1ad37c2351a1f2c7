import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/identity/acts.ts';
import { startHistory } from '../support/identity/history.ts';

/** This many gate every merge; `IDENTITY_HISTORIES=200` is a night's work. */
const histories = Number(process.env.IDENTITY_HISTORIES ?? 2);
/** What a failed run prints, to have it again. */
const seed = process.env.IDENTITY_SEED;

test('whatever people do with invitations, roles, passwords, sessions and keys, whoever may is let in at each replica, and nobody else, from the answer on', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 50 }), async (acts) => {
      await using history = await startHistory();
      for (const one of acts) {
        await history.perform(one);
        await history.compareAccess();
      }
      await history.compareLists();
      await history.compareRefreshes();
    }),
    {
      numRuns: histories,
      ...(seed !== undefined && { seed: Number(seed) }),
      // Shrinking takes minutes: with IDENTITY_SEED it is done, without it a failure only tells its seed.
      endOnFailure: seed === undefined,
    },
  );
}, 600_000);
