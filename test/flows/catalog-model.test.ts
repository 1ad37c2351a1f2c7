import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/catalog/acts.ts';
import { startHistory } from '../support/catalog/history.ts';
import { randomHistories } from '../support/random-histories.ts';

const histories = randomHistories('CATALOG', 1);

test(
  'whatever operators do to models, grants, deployments and retirements, each organization sees exactly what it may know of',
  async () => {
    await histories.assert(
      fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 50 }), async (acts) => {
        await using history = await startHistory();
        for (const one of acts) {
          await history.perform(one);
          await history.compare();
        }
        await history.compareAudit();
      }),
    );
  },
  histories.timeoutMs,
);
