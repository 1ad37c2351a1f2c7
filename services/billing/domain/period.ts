/*
 * Budgets are counted by UTC day or month. A period is named by its first day, as Postgres writes a date (2026-11-01). The time comes from
 * the database's clock, so that no edge's clock can open a new day.
 */

/** First day of a period, as YYYY-MM-DD. */
export type PeriodStart = string;

export const dayMs = 86_400_000;

/** The UTC day of a moment. */
export const dayOf = (ms: number): PeriodStart => new Date(ms).toISOString().slice(0, 10);

/** The UTC month of a moment. */
export const monthOf = (ms: number): PeriodStart => monthOfDay(dayOf(ms));

/** The month of a day. */
export const monthOfDay = (day: PeriodStart): PeriodStart => `${day.slice(0, 7)}-01`;

export const startOfPeriodMs = (period: PeriodStart): number => Date.parse(`${period}T00:00:00Z`);

/** The first instant after the UTC day of a moment. */
export const nextDayMs = (ms: number): number => startOfPeriodMs(dayOf(ms)) + dayMs;

/** The first instant after the UTC month of a moment. */
export function nextMonthMs(ms: number): number {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

/** The UTC day this many days after that of a moment. */
export const dayAfter = (ms: number, days: number): PeriodStart => dayOf(startOfPeriodMs(dayOf(ms)) + days * dayMs);
