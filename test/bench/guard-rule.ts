import { spreadOf } from './measure.ts';

/** The part by which a workload may cost more than the baseline says. */
export const lossMax = 0.15;
/** How seldom chance alone may put the true median outside of the bounds, on each side. */
const chanceMax = 0.05;

/** The median of ratios, and bounds between which the true median lies. */
export type Finding = { median: number; low: number; high: number };

/**
 * Bounds by the sign test, which needs to know nothing of how ratios are spread: that the k-th smallest of n lies above the true median
 * is as likely as fewer than k heads in n throws of a coin. Too few ratios for any bound give 0 and infinity.
 */
export function findingOf(ratios: readonly number[]): Finding {
  const sorted = ratios.toSorted((a, b) => a - b);
  let outside = -1;
  let ways = 1;
  let chance = 0.5 ** sorted.length;
  while (chance <= chanceMax && outside < sorted.length) {
    outside += 1;
    ways = (ways * (sorted.length - outside)) / (outside + 1);
    chance += ways * 0.5 ** sorted.length;
  }
  return {
    median: spreadOf(ratios).median,
    low: sorted[outside] ?? 0,
    high: sorted[sorted.length - 1 - outside] ?? Number.POSITIVE_INFINITY,
  };
}

/** Whether a workload has certainly become dearer by more than `lossMax`. Noise makes the bounds wide, and so never a loss. */
export const isLost = ({ low }: Finding, baseline: number): boolean => low > baseline * (1 + lossMax);
