import fc from 'fast-check';
import { test } from 'vitest';
import { act } from '../support/identity/acts.ts';
import { startHistory } from '../support/identity/history.ts';
import { randomHistories } from '../support/random-histories.ts';

const histories = randomHistories('IDENTITY', 1);

test(
  'whatever people do with invitations, roles, passwords, sessions and keys, each replica lets in exactly those who may, once the answer is given',
  async () => {
    await histories.assert(
      fc.asyncProperty(fc.array(act, { minLength: 20, maxLength: 50 }), async (acts) => {
        await using history = await startHistory();
        for (const one of acts) {
          await history.perform(one);
          await history.compareAccess();
        }
        await history.compareLists();
        await history.compareRefreshes();
        await history.compareAudit();
      }),
    );
  },
  histories.timeoutMs,
);
