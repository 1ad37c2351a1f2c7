import { setTimeout as delay } from 'node:timers/promises';
import type { BudgetKey } from './spend.ts';

/**
 * Waits for room in slices to come back. Holders settle their slices twice a second, and near the limit a settlement leaves no free
 * room; so a request which finds a budget full of slices waits until each was settled, rather than being refused for what a
 * call needed that has ended since. However many requests wait for a budget, one looks.
 */
export type Recalls = {
  /** Resolves once all slices were settled after `sinceMs`, or after the longest time that a settlement may take. */
  wait(budget: BudgetKey, sinceMs: number, oldestSettlementMs: () => Promise<number>): Promise<void>;
};

const lookMs = 50;
/** Two settlements of a holder, and some. */
const waitMsMax = 1_500;

export function createRecalls(): Recalls {
  const looks = new Map<string, Promise<number>>();

  /** The next look at a budget, the same for all who wait for it. */
  function nextLook(key: string, look: () => Promise<number>): Promise<number> {
    let running = looks.get(key);
    if (running === undefined) {
      running = delay(lookMs)
        .then(look)
        .finally(() => looks.delete(key));
      looks.set(key, running);
    }
    return running;
  }

  return {
    async wait({ tenantId, kind, subjectId }, sinceMs, oldestSettlementMs) {
      const key = `${tenantId} ${kind} ${subjectId}`;
      for (let waitedMs = 0; waitedMs < waitMsMax; waitedMs += lookMs) {
        if ((await nextLook(key, oldestSettlementMs)) > sinceMs) return;
      }
    },
  };
}
