import { spreadOf } from './measure.ts';

/** How much more than the baseline a workload may cost, as a fraction. */
export const lossMax = 0.15;
/** The probability that chance alone puts the true median outside the bounds, on each side. */
const chanceMax = 0.05;

/** The median of ratios, and bounds between which the true median lies. */
export type Finding = { median: number; low: number; high: number };

/**
 * Bounds by the sign test, which assumes nothing about how ratios are distributed: the k-th smallest of n is above the true median with the
 * probability of fewer than k heads in n throws of a coin. With too few ratios for any bound, the bounds are 0 and infinity.
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

/** Whether a workload has certainly become more expensive by more than `lossMax`. Noise widens the bounds, so it never counts as a loss. */
export const isLost = ({ low }: Finding, baseline: number): boolean => low > baseline * (1 + lossMax);

/** Whether it has certainly not: nothing more needs to be measured. */
export const isKept = ({ high }: Finding, baseline: number): boolean => high <= baseline * (1 + lossMax);
