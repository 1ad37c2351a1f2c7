import { ReminderPoint } from '#gen/modelgateway/models/v1/reminder_pb.ts';

const dayMs = 86_400_000;

/** The points that follow the date, with how long before it they are due (decisions.md, Models). */
const leadMs: ReadonlyMap<ReminderPoint, number> = new Map([
  [ReminderPoint.THIRTY_DAYS, 30 * dayMs],
  [ReminderPoint.SEVEN_DAYS, 7 * dayMs],
  [ReminderPoint.ONE_DAY, dayMs],
  [ReminderPoint.RETIREMENT_DAY, 0],
]);

/** Until when a mail of the retirement day is still worth reading. */
const aftermathMs = 7 * dayMs;

/** When a point is due; null: its moment had passed when the date was set, so it is skipped. */
export type PlannedPoint = { point: ReminderPoint; dueAtMs: number | null };

/**
 * The points of a date that is set at `nowMs`. The announcement belongs to the first date alone: users are told of it once,
 * and a move changes only what the later points are due.
 */
export function reminderPlan(sunsetAtMs: number, nowMs: number, isFirstDate: boolean): PlannedPoint[] {
  const later = [...leadMs].map(([point, lead]) => {
    const dueAtMs = sunsetAtMs - lead;
    return { point, dueAtMs: dueAtMs > nowMs ? dueAtMs : null };
  });
  return isFirstDate ? [{ point: ReminderPoint.ANNOUNCEMENT, dueAtMs: nowMs }, ...later] : later;
}

/**
 * From when on a mail of a point would be stale, because a later one says more: what could not be sent until then is not sent
 * at all.
 */
export function staleAtMs(point: ReminderPoint, sunsetAtMs: number): number {
  switch (point) {
    case ReminderPoint.THIRTY_DAYS:
      return sunsetAtMs - leadMs.get(ReminderPoint.SEVEN_DAYS)!;
    case ReminderPoint.SEVEN_DAYS:
      return sunsetAtMs - leadMs.get(ReminderPoint.ONE_DAY)!;
    case ReminderPoint.RETIREMENT_DAY:
      return sunsetAtMs + aftermathMs;
    // The announcement speaks of a date that is to come, and so does the last day before it.
    default:
      return sunsetAtMs;
  }
}
