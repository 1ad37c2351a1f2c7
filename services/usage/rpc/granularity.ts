import { Granularity } from '#gen/modelgateway/usage/v1/report_pb.ts';
import {
  checkTimeZone,
  daysMaxByWidth,
  noDays,
  type RangeRule,
  type RequestedDays,
  resolveRange,
} from '../domain/requested-range.ts';
import type { BucketWidth, DayRange } from '../domain/time-buckets.ts';

const widths: ReadonlyMap<Granularity, BucketWidth> = new Map([
  [Granularity.HOURLY, 'hourly'],
  [Granularity.DAILY, 'daily'],
  [Granularity.WEEKLY, 'weekly'],
  [Granularity.MONTHLY, 'monthly'],
]);

/** A range and how it will be cut into buckets. */
type BucketedRange = { days: DayRange; width: BucketWidth; granularity: Granularity };

/** Resolves a range with its granularity, which limits its width (service.md, Limits). Hours are UTC, whatever the zone. */
export function resolveBucketedRange(
  asked: Granularity,
  requested: RequestedDays = noDays,
  rule: Pick<RangeRule, 'defaultDays'>,
  nowMs: number,
): BucketedRange {
  const granularity = asked === Granularity.UNSPECIFIED ? Granularity.DAILY : asked;
  const width = widths.get(granularity)!;
  const timezone = checkTimeZone(requested.timezone);
  const days = resolveRange(
    { ...requested, timezone: width === 'hourly' ? 'UTC' : timezone },
    { ...rule, daysMax: daysMaxByWidth[width], qualifier: ` with ${width} granularity` },
    nowMs,
  );
  return { days, width, granularity };
}
