import { setTimeout as delay } from 'node:timers/promises';
import type { BudgetOfLease } from './lease-row.ts';

/**
 * Waits for idle room to come back. Holders settle their slices twice a second, and near the limit a settlement leaves no free
 * room; so a request which finds a budget full of idle slices waits for that moment rather than being refused too early.
 * However many requests wait for a budget, one looks.
 */
export type Recalls = {
  /** Resolves once `isIdle` answers false, or after the longest time that a settlement may take. */
  wait(budget: BudgetOfLease, isIdle: () => Promise<boolean>): Promise<void>;
};

const lookMs = 50;
/** Two settlements of a holder, and some. */
const waitMsMax = 1_500;

export function createRecalls(): Recalls {
  const running = new Map<string, Promise<void>>();

  async function untilBack(isIdle: () => Promise<boolean>): Promise<void> {
    for (let waitedMs = 0; waitedMs < waitMsMax; waitedMs += lookMs) {
      await delay(lookMs);
      if (!(await isIdle())) return;
    }
  }

  return {
    wait({ tenantId, kind, subjectId }, isIdle) {
      const key = `${tenantId} ${kind} ${subjectId}`;
      let waiting = running.get(key);
      if (waiting === undefined) {
        waiting = untilBack(isIdle).finally(() => running.delete(key));
        running.set(key, waiting);
      }
      return waiting;
    },
  };
}
