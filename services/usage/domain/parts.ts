import type { InstantRange } from './time-buckets.ts';

const dayMs = 86_400_000;

/** A stretch of time to be read from one tier of roll-ups; buckets are counted from 0. */
export type Part = InstantRange & {
  tier: 'day' | 'quarterHour';
  /** The bucket which it is a part of. */
  addTo: number | null;
  /** The bucket whose days hold it though it is not a part of that. */
  takeFrom: number | null;
};

/**
 * What to read for the buckets between some cuts. Each cut is moved to the nearest UTC midnight, so that a bucket is whole days, but for
 * the quarter hours between the cut and that midnight: they are added to the bucket on their side of the cut, and taken from the other,
 * whose days hold them. A local day in Berlin is so a day and four hours of quarter hours instead of 24.
 */
export function partsOf(cutsMs: readonly number[]): Part[] {
  const parts: Part[] = [];
  for (let bucket = 0; bucket < cutsMs.length - 1; bucket += 1) {
    const startMs = cutsMs[bucket]!;
    const endMs = cutsMs[bucket + 1]!;
    if (endMs - startMs < dayMs / 2) {
      parts.push({ tier: 'quarterHour', startMs, endMs, addTo: bucket, takeFrom: null });
      continue;
    }
    const firstDayMs = nearestMidnightMs(startMs);
    const endDayMs = nearestMidnightMs(endMs);
    pushEdge(parts, { fromMs: startMs, toMs: firstDayMs, bucket });
    if (firstDayMs < endDayMs) {
      parts.push({ tier: 'day', startMs: firstDayMs, endMs: endDayMs, addTo: bucket, takeFrom: null });
    }
    pushEdge(parts, { fromMs: endDayMs, toMs: endMs, bucket });
  }
  return parts;
}

const nearestMidnightMs = (ms: number): number => Math.round(ms / dayMs) * dayMs;

/** The way from a bucket's cut to its days, or from them to its other cut: forwards it belongs to the bucket, backwards it does not. */
function pushEdge(parts: Part[], { fromMs, toMs, bucket }: { fromMs: number; toMs: number; bucket: number }): void {
  if (fromMs === toMs) return;
  const [startMs, endMs] = fromMs < toMs ? [fromMs, toMs] : [toMs, fromMs];
  const last = parts.at(-1);
  // The bucket before has met the same cut.
  const isShared = last?.tier === 'quarterHour' && last.startMs === startMs && last.endMs === endMs;
  const part: Part = isShared ? last : { tier: 'quarterHour', startMs, endMs, addTo: null, takeFrom: null };
  if (fromMs < toMs) part.addTo = bucket;
  else part.takeFrom = bucket;
  if (!isShared) parts.push(part);
}
