import { expect, test } from 'vitest';
import { isDay } from './time.ts';

test('a day is one of the calendar, in full', () => {
  for (const day of ['2026-01-01', '2024-02-29', '2026-12-31']) expect(isDay(day), day).toBe(true);
  for (const none of ['', '2026-02-31', '2026-02-29', '2026-13-01', '2026-1-1', '2026-01-01T00:00', 'yesterday']) {
    expect(isDay(none), none).toBe(false);
  }
});
