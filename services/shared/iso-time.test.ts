import { timestampDate } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { parseDay, readDay, readIsoTime } from './iso-time.ts';

const read = (text: string): string | undefined => {
  const time = readIsoTime(text);
  return time === undefined ? undefined : timestampDate(time).toISOString();
};

test.each([
  ['2030-01-31', '2030-01-31T00:00:00.000Z'],
  ['2028-02-29', '2028-02-29T00:00:00.000Z'],
  ['2030-01-31T12:00Z', '2030-01-31T12:00:00.000Z'],
  ['2030-01-31T23:30:00.123456789-01:00', '2030-02-01T00:30:00.123Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
])('%s is a time', (text, time) => expect(read(text)).toBe(time));

test.each([
  '',
  'tomorrow',
  '2030-1-31',
  '2030-01-31T12:00:00',
  '2030-01-31T25:00:00Z',
  '2030-13-01',
  '2027-02-29',
  '2027-02-31T00:00:00Z',
  '2027-04-31T23:59:59+02:00',
  '+010000-01-01T00:00:00Z',
])('%j is no time', (text) => expect(read(text)).toBeUndefined());

test.each(['9999-12-31T23:59:59-23:59', '0001-01-01T00:00:00+14:00', '0000-01-01', '0000-12-31T23:59:59.999Z'])(
  '%s is outside the years 1 to 9999, and no time either',
  (text) => expect(read(text)).toBeUndefined(),
);

test.each(['2026-02-29', '2026-13-01', '2026-1-1', '20260101', '+002026-01-01', ''])('%j is no day', (text) => {
  expect(parseDay(text)).toBeNull();
});

test('a parameter names a day of the years 1970 to 9000, or none', () => {
  expect(String(readDay('1970-01-01', 'start_date'))).toBe('1970-01-01');
  expect(String(readDay('9000-12-31', 'start_date'))).toBe('9000-12-31');
  expect(readDay('', 'start_date')).toBeNull();
  for (const text of ['1969-12-31', '9001-01-01']) {
    expect(() => readDay(text, 'start_date')).toThrow('`start_date`: expected a year from 1970 to 9000.');
  }
  expect(() => readDay('2026-02-29', 'start_date')).toThrow('`start_date`: expected a date as YYYY-MM-DD.');
});
