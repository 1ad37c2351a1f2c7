import { ReminderPoint } from '#gen/modelgateway/models/v1/reminder_pb.ts';

const dayMs = 86_400_000;

/** The points that are counted back from the date, with their lead (decisions.md, Models). */
const leadMs: ReadonlyMap<ReminderPoint, number> = new Map([
  [ReminderPoint.THIRTY_DAYS, 30 * dayMs],
  [ReminderPoint.SEVEN_DAYS, 7 * dayMs],
  [ReminderPoint.ONE_DAY, dayMs],
  [ReminderPoint.RETIREMENT_DAY, 0],
]);

/** How long after a retirement, or its withdrawal, the mail that says so is still worth reading. */
const aftermathMs = 7 * dayMs;

/** When a point is due; null: that had passed when the date was set, so the point is skipped. */
type PlannedPoint = { point: ReminderPoint; dueAtMs: number | null };

/**
 * The points of a date set at `nowMs`. The announcement goes out with the first date only: users are told of it once, and moving the date
 * only moves the later points.
 */
export function reminderPlan(sunsetAtMs: number, nowMs: number, isFirstDate: boolean): PlannedPoint[] {
  const later = [...leadMs].map(([point, lead]) => {
    const dueAtMs = sunsetAtMs - lead;
    return { point, dueAtMs: dueAtMs > nowMs ? dueAtMs : null };
  });
  return isFirstDate ? [{ point: ReminderPoint.ANNOUNCEMENT, dueAtMs: nowMs }, ...later] : later;
}

/**
 * The moment from which a mail of this point would be stale, because a later one says more: a mail not sent by then is not sent at all.
 * `endMs` is the date of the retirement, or when it was withdrawn.
 */
export function staleAtMs(point: ReminderPoint, endMs: number): number {
  switch (point) {
    case ReminderPoint.THIRTY_DAYS:
      return endMs - leadMs.get(ReminderPoint.SEVEN_DAYS)!;
    case ReminderPoint.SEVEN_DAYS:
      return endMs - leadMs.get(ReminderPoint.ONE_DAY)!;
    case ReminderPoint.RETIREMENT_DAY:
    case ReminderPoint.WITHDRAWAL:
      return endMs + aftermathMs;
    // The announcement, and the last day before the date, speak of a future date.
    default:
      return endMs;
  }
}
