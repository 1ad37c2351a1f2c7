import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { invalidValue } from './errors.ts';

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** The bounds of times that a Timestamp can hold and that have a four-digit year. */
const msMin = Date.parse('0001-01-01T00:00:00.000Z');
const msMax = Date.parse('9999-12-31T23:59:59.999Z');

/** Reads an ISO 8601 time with its zone, or a date, which means 00:00 UTC of that day; undefined when the text is neither. */
export function readIsoTime(text: string): Timestamp | undefined {
  // Date.parse takes 31 February for 3 March.
  const ms = isoTime.test(text) && parseDay(text.slice(0, 10)) !== null ? Date.parse(text) : Number.NaN;
  return ms >= msMin && ms <= msMax ? timestampFromMs(ms) : undefined;
}

const isoDay = /^\d{4}-\d{2}-\d{2}$/;

/** A calendar day written YYYY-MM-DD; null when there is no such day. */
export function parseDay(text: string): Temporal.PlainDate | null {
  if (!isoDay.test(text)) return null;
  try {
    return Temporal.PlainDate.from(text, { overflow: 'reject' });
  } catch {
    return null;
  }
}

/**
 * The day that a parameter names, within the years in which something can have happened and that time zone arithmetic can handle; null for
 * none.
 *
 * @throws GatewayError INVALID_REQUEST that names the parameter.
 */
export function readDay(text: string, param: string): Temporal.PlainDate | null {
  if (text === '') return null;
  const day = parseDay(text);
  if (day === null) throw invalidValue(param, 'expected a date as YYYY-MM-DD');
  if (day.year < 1970 || day.year > 9000) throw invalidValue(param, 'expected a year from 1970 to 9000');
  return day;
}
