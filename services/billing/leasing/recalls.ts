import { setTimeout as delay } from 'node:timers/promises';
import type { BudgetKey } from './spend.ts';

/**
 * Waits for room to come back from slices. Holders settle their slices twice a second, and near the limit a settlement leaves no free room.
 * So a request that finds a budget full of slices waits until each was settled, rather than being refused because of room that an ended
 * call no longer needs. However many requests wait for a budget, only one of them polls.
 */
export type Recalls = {
  /** Resolves once all slices were settled after `sinceMs`, or after the longest time that settling may take. */
  wait(budget: BudgetKey, sinceMs: number, oldestSettlementMs: () => Promise<number>): Promise<void>;
};

const lookMs = 50;
/** Two settlement intervals of a holder, and a margin. */
const waitMsMax = 1_500;

export function createRecalls(): Recalls {
  const looks = new Map<string, Promise<number>>();

  /** The next poll of a budget, shared by all who wait for it. */
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
      const untilMs = performance.now() + waitMsMax;
      while (performance.now() < untilMs) {
        if ((await nextLook(key, oldestSettlementMs)) > sinceMs) return;
      }
    },
  };
}
