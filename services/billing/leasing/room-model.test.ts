import fc from 'fast-check';
import { test } from 'vitest';
import { randomHistories } from '../../../test/support/random-histories.ts';
import { steps } from '../fixtures/room-acts.ts';
import { startHistory } from '../fixtures/room-history.ts';

const histories = randomHistories('ROOM', 3);

test(
  'over the turns of months nobody is promised more than can be paid, or refused while there is room',
  async () => {
    await histories.assert(
      fc.asyncProperty(steps, steps, steps, async (first, second, third) => {
        await using history = await startHistory();
        await history.perform(first);
        await history.turnMonth();
        await history.perform(second);
        await history.turnMonth();
        await history.perform(third);
        await history.end();
      }),
    );
  },
  histories.timeoutMs,
);
