import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt';

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Of the times that a Timestamp holds, and that are written with four digits of a year. */
const msMin = Date.parse('0001-01-01T00:00:00.000Z');
const msMax = Date.parse('9999-12-31T23:59:59.999Z');

/** Reads an ISO 8601 time with its zone, or a date, which means 00:00 UTC of that day; undefined when the text is neither. */
export function readIsoTime(text: string): Timestamp | undefined {
  const ms = isoTime.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  return ms >= msMin && ms <= msMax ? timestampFromMs(ms) : undefined;
}

/** Date.parse takes 31 February for 3 March; the day must come back as it was given. */
function isDay(day: string): boolean {
  const ms = Date.parse(day);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day);
}
