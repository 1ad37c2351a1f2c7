import { expect, test } from 'vitest';
import { isUuid, uuidv7, uuidv7Ms } from './ids.ts';

test('ids are version 7 of the RFC variant, rise without end, and tell their moment', () => {
  const before = Date.now();
  const ids = Array.from({ length: 20_000 }, uuidv7);
  expect(ids.every((id) => isUuid(id) && id[14] === '7' && /[89ab]/.test(id[19]!))).toBe(true);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) {
    expect(uuidv7Ms(id)).toBeGreaterThanOrEqual(before);
    expect(uuidv7Ms(id)).toBeLessThanOrEqual(Date.now());
  }
});

test('the random part of no two ids is the same', () => {
  const tails = Array.from({ length: 5_000 }, () => uuidv7().slice(-12));
  expect(new Set(tails).size).toBe(tails.length);
});
