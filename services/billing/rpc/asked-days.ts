import { invalidRequest } from '#shared/errors.ts';
import { readDay } from '#shared/iso-time.ts';

/** The days that narrow a list, both included; null: open. @throws INVALID_REQUEST that names the parameter. */
export function askedDays({ startDate, endDate }: { startDate: string; endDate: string }) {
  const firstDay = readDay(startDate, 'start_date');
  const lastDay = readDay(endDate, 'end_date');
  if (firstDay !== null && lastDay !== null && Temporal.PlainDate.compare(firstDay, lastDay) > 0) {
    throw invalidRequest('start_date', 'start_date must not be after end_date.', 'invalid_value');
  }
  return { firstDay, lastDay };
}
