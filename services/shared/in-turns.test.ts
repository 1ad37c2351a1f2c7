import { expect, test } from 'vitest';
import { inTurns } from './in-turns.ts';

test('other work of the process gets its turn between slices, and every item comes once, in order', async () => {
  const done: (number | string)[] = [];
  for await (const slice of inTurns([1, 2, 3, 4, 5], 2)) {
    done.push(...slice);
    setImmediate(() => done.push('other'));
  }
  expect(done).toEqual([1, 2, 'other', 3, 4, 'other', 5]);
});

test('no items make no slice', async () => {
  expect(await Array.fromAsync(inTurns([], 2))).toEqual([]);
});
