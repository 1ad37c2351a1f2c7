import { expect, test, vi } from 'vitest';
import { formatRelative, isDay, localTimeZone } from './time.ts';

test('a day is a real calendar day, in full', () => {
  for (const day of ['2026-01-01', '2024-02-29', '2026-12-31']) expect(isDay(day), day).toBe(true);
  for (const none of ['', '2026-02-31', '2026-02-29', '2026-13-01', '2026-1-1', '2026-01-01T00:00', 'yesterday']) {
    expect(isDay(none), none).toBe(false);
  }
});

test.each([undefined, 'Etc/Unknown'])('a browser whose time zone is %s has the days of UTC', (timeZone) => {
  const options = vi.spyOn(Intl.DateTimeFormat.prototype, 'resolvedOptions');
  options.mockReturnValue({ timeZone } as Intl.ResolvedDateTimeFormatOptions);
  expect(localTimeZone()).toBe('UTC');
  options.mockRestore();
});

test('a time from now is given by its length, not by calendar days, months or years, which it may cross', () => {
  const now = Date.parse('2026-12-31T23:00:00Z');
  const told = ['2027-01-02T22:00:00Z', '2026-12-30T01:00:00Z', '2026-12-01T00:00:00Z', '2028-01-10T00:00:00Z'];
  expect(told.map((iso) => formatRelative(iso, now))).toEqual(['in 1 day', '1 day ago', '1 month ago', 'in 1 year']);
  expect(formatRelative('2026-12-31T22:59:50Z', now)).toBe('just now');
});
