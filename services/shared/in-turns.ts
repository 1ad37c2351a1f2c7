import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Hands out items in slices, each in a turn of the event loop of its own: what is done to them in all may take long, and meanwhile the
 * process does its other work between the slices.
 */
export async function* inTurns<Item>(items: readonly Item[], perTurn: number): AsyncGenerator<readonly Item[]> {
  for (let start = 0; start < items.length; start += perTurn) {
    if (start > 0) await nextTurn();
    yield items.slice(start, start + perTurn);
  }
}
