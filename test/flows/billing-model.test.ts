import fc from 'fast-check';
import { test } from 'vitest';
import { act, start, zone } from '../support/billing/acts.ts';
import { startHistory } from '../support/billing/history.ts';
import { randomHistories } from '../support/random-histories.ts';

const histories = randomHistories('BILLING', 3);

test(
  'whatever happens to an organization, each answer about its money matches plain arithmetic over the specification',
  async () => {
    await histories.assert(
      fc.asyncProperty(start, fc.array(act, { minLength: 15, maxLength: 40 }), zone, async (begins, acts, timeZone) => {
        await using history = await startHistory(begins);
        for (const one of acts) {
          await history.perform(one);
          await history.compareBalances();
        }
        await history.compareDocuments();
        await history.compareUsage(timeZone);
      }),
    );
  },
  histories.timeoutMs,
);
