import { ErrorReason, gatewayError, invalidRequest, invalidValue } from '#shared/errors.ts';
import { readDay } from '#shared/iso-time.ts';
import { type BucketWidth, type DayRange, dayAt, dayStartMs, daysIn, isTimeZone } from './time-buckets.ts';

/** Days as given in a request; empty if absent. */
export type RequestedDays = { startDate: string; endDate: string; timezone: string };
export const noDays: RequestedDays = { startDate: '', endDate: '', timezone: '' };

/** The rule for a range. */
export type RangeRule = {
  /** The widest range, in days. */
  daysMax: number;
  /** Added to the message with the maximum, e.g. ` with hourly granularity`. */
  qualifier?: string;
  /** The length in days of the default range, which ends today; absent: both dates are required. */
  defaultDays?: number;
};

/** The widest ranges by granularity (service.md, Limits); five years for monthly, which only reports have. */
export const daysMaxByWidth: Readonly<Record<BucketWidth, number>> = {
  hourly: 7,
  daily: 90,
  weekly: 365,
  monthly: 1_826,
};

/** The widest range of sums without buckets, and of an export. */
export const daysMaxOfSums = 366;

/**
 * The days that a request means.
 *
 * @throws GatewayError INVALID_REQUEST for a bad, missing or reversed date or zone, RANGE_TOO_LARGE beyond `daysMax`; both name the
 * parameter.
 */
export function resolveRange(requested: RequestedDays | undefined, rule: RangeRule, nowMs: number): DayRange {
  const given = resolveOpenRange(requested);
  if (rule.defaultDays === undefined) {
    if (given.firstDay === null) throw missing('start_date');
    if (given.lastDay === null) throw missing('end_date');
  }
  const { timeZone } = given;
  const lastDay = given.lastDay ?? dayAt(nowMs, timeZone);
  const firstDay = given.firstDay ?? lastDay.subtract({ days: rule.defaultDays! - 1 });
  const range = { firstDay, lastDay, timeZone };
  // A given end was checked already.
  requireOrder(range, 'start_date');
  if (daysIn(range) > rule.daysMax) {
    throw gatewayError(
      ErrorReason.RANGE_TOO_LARGE,
      `The range of ${daysIn(range)} days is too large: at most ${rule.daysMax} days${rule.qualifier ?? ''}.`,
      { param: 'start_date' },
    );
  }
  return range;
}

/** The current calendar month in a request's zone. */
export function currentMonth(timezone: string, nowMs: number): DayRange {
  const timeZone = checkTimeZone(timezone);
  const today = dayAt(nowMs, timeZone);
  return { firstDay: today.with({ day: 1 }), lastDay: today.with({ day: today.daysInMonth }), timeZone };
}

/** Days of which either end may be open: null. */
export function resolveOpenRange({ startDate, endDate, timezone }: RequestedDays = noDays) {
  const timeZone = checkTimeZone(timezone);
  const firstDay = readDay(startDate, 'start_date');
  const lastDay = readDay(endDate, 'end_date');
  if (firstDay !== null && lastDay !== null) requireOrder({ firstDay, lastDay, timeZone }, 'end_date');
  return { firstDay, lastDay, timeZone };
}

/** The moments between which such days are; null where they are open. */
export const openInstants = ({ firstDay, lastDay, timeZone }: ReturnType<typeof resolveOpenRange>) => ({
  startMs: firstDay === null ? null : dayStartMs(firstDay, timeZone),
  endMs: lastDay === null ? null : dayStartMs(lastDay.add({ days: 1 }), timeZone),
});

function requireOrder({ firstDay, lastDay }: DayRange, param: string): void {
  if (Temporal.PlainDate.compare(firstDay, lastDay) <= 0) return;
  throw invalidValue(param, `start_date ${firstDay} is after end_date ${lastDay}`);
}

/** The zone of a request; empty means UTC. INVALID_REQUEST when there is none with that name. */
export function checkTimeZone(name: string): string {
  if (name === '') return 'UTC';
  if (isTimeZone(name)) return name;
  throw invalidValue('timezone', 'expected an IANA time zone such as Europe/Berlin');
}

const missing = (param: string) =>
  invalidRequest(param, `Missing required parameter: \`${param}\`, a date as YYYY-MM-DD.`, 'missing_required_field');
