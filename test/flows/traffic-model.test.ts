import fc from 'fast-check';
import { test } from 'vitest';
import { randomHistories } from '../support/random-histories.ts';
import { steps } from '../support/traffic/acts.ts';
import { startHistory } from '../support/traffic/history.ts';

const histories = randomHistories('TRAFFIC', 1);

test(
  'whatever happens while calls and jobs run at two replicas, usage, charges, budgets and metrics tell what the upstream did, and nothing stays held',
  async () => {
    await histories.assert(
      fc.asyncProperty(steps, async (all) => {
        await using history = await startHistory();
        for (const acts of all) await history.perform(acts);
        await history.finish();
      }),
    );
  },
  histories.timeoutMs,
);
