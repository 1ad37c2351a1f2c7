import type { InstantRange } from './time-buckets.ts';

const dayMs = 86_400_000;

/** What to read of each tier of roll-ups. */
export type TierRanges = { days: InstantRange[]; quarterHours: InstantRange[] };

/**
 * Parts the time between the first and the last of some cuts into whole UTC days without a cut inside, which are read from the daily
 * roll-ups, and the rest, which is read from those of quarter hours. In UTC there is no rest; elsewhere it is the days in which a
 * local week or month begins, or with local days all.
 */
export function tierRanges(cutsMs: readonly number[]): TierRanges {
  const startMs = cutsMs[0]!;
  const endMs = cutsMs.at(-1)!;
  const quarterHours: InstantRange[] = [];
  const days: InstantRange[] = [];
  let reachedMs = startMs;
  for (const cutMs of cutsMs) {
    const cutDayMs = Math.floor(cutMs / dayMs) * dayMs;
    if (cutMs === cutDayMs || cutMs < reachedMs) continue;
    const restStartMs = Math.max(cutDayMs, reachedMs);
    extend(days, { startMs: reachedMs, endMs: restStartMs });
    reachedMs = Math.min(cutDayMs + dayMs, endMs);
    extend(quarterHours, { startMs: restStartMs, endMs: reachedMs });
  }
  extend(days, { startMs: reachedMs, endMs });
  return { days, quarterHours };
}

/** Adds a range; one that follows the last without a gap becomes a part of it. */
function extend(ranges: InstantRange[], range: InstantRange): void {
  if (range.startMs >= range.endMs) return;
  const last = ranges.at(-1);
  if (last?.endMs === range.startMs) last.endMs = range.endMs;
  else ranges.push(range);
}
