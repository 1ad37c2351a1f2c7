import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * The most memory that this process holds during a run, in bytes above what it held before. Garbage does not count, nor does what stays
 * below the bound, since collecting takes longer than what is measured.
 */
export async function memoryGrowth(boundBytes: number, run: () => Promise<unknown>): Promise<number> {
  const used = (): number => {
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    return arrayBuffers + heapUsed;
  };
  const held = (): number => {
    collectGarbage();
    // Buffers are freed after a collection, by another thread; the next collection waits until they are.
    collectGarbage();
    return used();
  };
  const before = held();
  let most = before;
  const look = (): void => {
    if (used() - before >= boundBytes) most = Math.max(most, held());
  };
  const sample = setInterval(look, 20);
  try {
    await run();
    look();
  } finally {
    clearInterval(sample);
  }
  return most - before;
}

/** Frees at once what is no longer referenced, except what WeakRefs revealed in this turn. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
