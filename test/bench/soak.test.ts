import { expect, test } from 'vitest';
import { growthOfLastHalf, isFlat } from './soak.ts';

test('a soak is flat if its last half does not rise, whatever the warm-up did', () => {
  const warmUp = [100, 150, 180, 195, 200];
  expect(isFlat([...warmUp, 203, 198, 204, 199, 201, 200])).toBe(true);
  expect(isFlat([...warmUp, 200, 190, 180, 170, 160, 150])).toBe(true);
});

test('memory that rises by a tenth over the last half is not flat', () => {
  const rising = Array.from({ length: 21 }, (_, index) => 200 + 2 * index);
  expect(growthOfLastHalf(rising)).toBeCloseTo(20);
  expect(isFlat(rising)).toBe(false);
});
