import { describe, expect, test } from 'vitest';
import { findingOf, isKept, isLost } from './guard-rule.ts';

/** Distinct ratios around a median: with `spread` 0.5 from half to one and a half of it, in a seemingly random order. */
function ratiosAround(median: number, spread: number, count = 24): number[] {
  return Array.from({ length: count }, (_, index) => {
    const part = ((index * 7) % count) / (count - 1);
    return median * (1 + spread * (2 * part - 1));
  });
}

describe('the benchmark guard', () => {
  test('a loss of 30% is certain where ratios lie 15% around their median', () => {
    expect(isLost(findingOf(ratiosAround(4 * 1.3, 0.15)), 4)).toBe(true);
  });

  test('the same cost, and a loss of 10%, are no loss', () => {
    expect(isLost(findingOf(ratiosAround(4, 0.15)), 4)).toBe(false);
    expect(isLost(findingOf(ratiosAround(4 * 1.1, 0.02)), 4)).toBe(false);
  });

  test('a median above the limit is no loss if noise may have caused it', () => {
    const finding = findingOf(ratiosAround(4 * 1.3, 0.9));
    expect(finding.median).toBeGreaterThan(4 * 1.15);
    expect(isLost(finding, 4)).toBe(false);
  });

  test('slices measured at a busy moment do not move the bounds', () => {
    const spiky = ratiosAround(4, 0.05).map((ratio, index) => (index % 4 === 0 ? ratio * 20 : ratio));
    expect(isLost(findingOf(spiky), 4)).toBe(false);
  });

  test('bounds are those of the sign test: of 24 ratios the 8th from below and from above', () => {
    const ratios = Array.from({ length: 24 }, (_, index) => 24 - index);
    expect(findingOf(ratios)).toEqual({ median: 12.5, low: 8, high: 17 });
    // Five heads in five throws are as rare as 3%, four in four as 6%.
    expect(findingOf([5, 4, 3, 2, 1])).toEqual({ median: 3, low: 1, high: 5 });
    expect(findingOf([9, 9, 9, 9])).toEqual({ median: 9, low: 0, high: Number.POSITIVE_INFINITY });
  });

  test('eight ratios are enough to tell the same cost from a loss of 20%, not from one that noise may hide', () => {
    expect(isKept(findingOf(ratiosAround(4, 0.1, 8)), 4)).toBe(true);
    expect(isKept(findingOf(ratiosAround(4 * 1.2, 0.1, 8)), 4)).toBe(false);
    expect(isKept(findingOf(ratiosAround(4, 0.5, 8)), 4)).toBe(false);
  });

  test('with too few ratios nothing is certain', () => {
    expect(isLost(findingOf([100, 100, 100]), 1)).toBe(false);
    expect(isLost(findingOf([]), 1)).toBe(false);
    expect(isKept(findingOf([1, 1, 1]), 1)).toBe(false);
  });
});
