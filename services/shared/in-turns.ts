import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Yields items in slices, each in its own turn of the event loop: processing all may take long, and between the slices the process does its
 * other work.
 */
export async function* inTurns<Item>(items: readonly Item[], perTurn: number): AsyncGenerator<readonly Item[]> {
  for (let start = 0; start < items.length; start += perTurn) {
    if (start > 0) await nextTurn();
    yield items.slice(start, start + perTurn);
  }
}
