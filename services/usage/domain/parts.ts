import type { InstantRange } from './time-buckets.ts';

/** The finest roll-ups: every time zone's days are made of quarter hours. */
export const quarterHourMs = 900_000;
const dayMs = 86_400_000;
export const weekMs = 7 * dayMs;

/** The tiers of roll-ups, and where their units begin: quarter hours, UTC days, and weeks from Monday. */
export const tiers = [
  { tier: 'quarterHour', widthMs: quarterHourMs, anyStartMs: 0 },
  { tier: 'day', widthMs: dayMs, anyStartMs: 0 },
  { tier: 'week', widthMs: weekMs, anyStartMs: Date.UTC(1970, 0, 5) },
] as const;
type Tier = (typeof tiers)[number];

/** Where units of a tier begin between two moments, without those. */
export function startsBetween(afterMs: number, beforeMs: number, { widthMs, anyStartMs }: Tier): number[] {
  const startsMs: number[] = [];
  const firstMs = anyStartMs + (Math.floor((afterMs - anyStartMs) / widthMs) + 1) * widthMs;
  for (let ms = firstMs; ms < beforeMs; ms += widthMs) startsMs.push(ms);
  return startsMs;
}

/** A stretch of time to be read from one tier of roll-ups; buckets are numbered from 0. */
export type Part = InstantRange & {
  tier: Tier['tier'];
  /** The bucket to which it is added. */
  addTo: number | null;
  /** The bucket whose days or weeks include it although it is not part of that bucket. */
  takeFrom: number | null;
};

const [, ...coarserTiers] = tiers;

/**
 * What to read for the buckets between some cuts. Each cut is moved to the nearest UTC midnight, so that a bucket consists of whole days,
 * except for the quarter hours between the cut and that midnight: they are added to the bucket on their side of the cut, and subtracted
 * from the other, whose days include them. A local day in Berlin thus takes a day and four hours of quarter hours instead of 24. Longer
 * buckets are made of whole weeks in the same way, except for the days between midnight and the nearest Monday.
 */
export function partsOf(cutsMs: readonly number[]): Part[] {
  const parts: Part[] = [];
  for (let bucket = 0; bucket < cutsMs.length - 1; bucket += 1) {
    let tier: Part['tier'] = 'quarterHour';
    let startMs = cutsMs[bucket]!;
    let endMs = cutsMs[bucket + 1]!;
    for (const coarser of coarserTiers) {
      if (endMs - startMs < coarser.widthMs / 2) break;
      const firstMs = nearestStartMs(startMs, coarser);
      const lastMs = nearestStartMs(endMs, coarser);
      pushEdge(parts, { tier, fromMs: startMs, toMs: firstMs, bucket });
      pushEdge(parts, { tier, fromMs: lastMs, toMs: endMs, bucket });
      [tier, startMs, endMs] = [coarser.tier, firstMs, lastMs];
    }
    if (startMs < endMs) parts.push({ tier, startMs, endMs, addTo: bucket, takeFrom: null });
  }
  return parts;
}

const nearestStartMs = (ms: number, { widthMs, anyStartMs }: Tier): number =>
  anyStartMs + Math.round((ms - anyStartMs) / widthMs) * widthMs;

type Edge = Pick<Part, 'tier'> & { fromMs: number; toMs: number; bucket: number };

/**
 * The stretch from a bucket's cut to its days or weeks, or from them to its other cut: forwards it belongs to the bucket, backwards it does
 * not.
 */
function pushEdge(parts: Part[], { tier, fromMs, toMs, bucket }: Edge): void {
  if (fromMs === toMs) return;
  const [startMs, endMs] = fromMs < toMs ? [fromMs, toMs] : [toMs, fromMs];
  // The previous bucket may have had the same cut.
  const shared = parts.findLast((part) => part.tier === tier && part.startMs === startMs && part.endMs === endMs);
  const part: Part = shared ?? { tier, startMs, endMs, addTo: null, takeFrom: null };
  if (fromMs < toMs) part.addTo = bucket;
  else part.takeFrom = bucket;
  if (shared === undefined) parts.push(part);
}
