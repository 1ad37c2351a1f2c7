/** The browser's time zone (an IANA name), in which the portal cuts days, weeks and months. */
export function localTimeZone(): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  // Where the system names none, a browser may give a name that is none to anybody else, and takes UTC.
  return timeZone && timeZone !== 'Etc/Unknown' ? timeZone : 'UTC';
}

const dateTime = new Intl.DateTimeFormat('en-US', {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
});
const dateOptions = { year: 'numeric', month: 'short', day: 'numeric' } as const;
const dateOnly = new Intl.DateTimeFormat('en-US', dateOptions);
const utcDateOnly = new Intl.DateTimeFormat('en-US', { ...dateOptions, timeZone: 'UTC' });

export const formatDateTime = (iso: string): string => dateTime.format(new Date(iso));
export const formatDate = (iso: string): string => dateOnly.format(new Date(iso));

/** `2026-11-21 03:04:05 UTC`, for tooltips. */
export function formatUtc(iso: string): string {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? iso : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** A calendar day in UTC such as a due date, `2026-11-21`, not shifted to the local zone. */
export function formatUtcDay(day: string): string {
  return utcDateOnly.format(new Date(day.length === 10 ? `${day}T00:00:00Z` : day));
}

/** The UTC days from `start` up to `end`, which is not included. */
export const formatUtcRange = (start: string, end: string): string =>
  `${formatUtcDay(start)} – ${formatUtcDay(new Date(Date.parse(end) - 1).toISOString())}`;

// Always in numbers: 47 hours from now is not "tomorrow".
const relative = new Intl.RelativeTimeFormat('en-US');
const relativeUnits: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** `3 hours ago`, `in 5 days`. */
export function formatRelative(iso: string, now: number): string {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  for (const [unit, size] of relativeUnits) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 45 ? 'just now' : relative.format(Math.round(seconds / 60), 'minute');
}

export const dayMs = 86_400_000;

/** Whole days from now until a moment, rounded up: the days left to a key or model. */
export const daysUntil = (iso: string, now: number): number => Math.ceil((new Date(iso).getTime() - now) / dayMs);

/** The local calendar day of a moment, as YYYY-MM-DD. */
export function localDay(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export const utcDay = (date: Date): string => date.toISOString().slice(0, 10);

/** Whether a text is a real calendar day, YYYY-MM-DD. February has no 31st, though Date takes it for the 3rd of March. */
export const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && utcDay(new Date(text)) === text;

/** Moves a calendar day by a number of days. Calendar arithmetic, so clock changes do not matter. */
export function addDays(day: string, days: number): string {
  return utcDay(new Date(Date.parse(`${day}T00:00:00Z`) + days * dayMs));
}

/** The first and the last day of a month, YYYY-MM. */
export function daysOfMonth(month: string): { start: string; end: string } {
  const next = addDays(`${month}-28`, 4);
  return { start: `${month}-01`, end: addDays(`${next.slice(0, 7)}-01`, -1) };
}

/** The earlier and the later of two calendar days. */
export const earlierDay = (one: string, other: string): string => (one < other ? one : other);
export const laterDay = (one: string, other: string): string => (one > other ? one : other);

/** The number of days in a range of calendar days, both ends included. */
export function daysBetween(start: string, end: string): number {
  return Math.round((Date.parse(`${end}T00:00:00Z`) - Date.parse(`${start}T00:00:00Z`)) / dayMs) + 1;
}
