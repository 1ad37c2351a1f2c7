import type { InstantRange } from './time-buckets.ts';

/*
 * Percentiles of latency are exact up to half a million calls. Above that they are those of all calls in every n-th quarter hour: some
 * hundred thousand calls over the whole range, with a rank error of about a tenth of a percent where neighbouring calls are alike, and a
 * little more where they are not.
 */

const callsMax = 500_000;
const sliceMs = 900_000;

/** The slices of a range whose latencies are read: the whole range, or evenly spread quarter hours. */
export function latencySlices(range: InstantRange, calls: number): InstantRange[] {
  const step = stepOf(Math.ceil(calls / callsMax));
  if (step === 1) return [range];
  const slices: InstantRange[] = [];
  for (let startMs = range.startMs; startMs < range.endMs; startMs += step * sliceMs) {
    slices.push({ startMs, endMs: Math.min(startMs + sliceMs, range.endMs) });
  }
  return slices;
}

/** At least `least`, and coprime to a day's 96 and a week's 672 quarter hours, so that every time of day and week is covered. */
function stepOf(least: number): number {
  let step = Math.max(1, least);
  while (step > 1 && [2, 3, 7].some((factor) => step % factor === 0)) step += 1;
  return step;
}
