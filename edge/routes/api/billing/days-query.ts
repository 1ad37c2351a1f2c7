import { daySchema, readDay } from '../../../http/days.ts';

/** The UTC days to which a list of invoices or transactions is narrowed, as YYYY-MM-DD, both included. */
export const daysQuerySchema = {
  start_date: daySchema('The first UTC day, as YYYY-MM-DD.'),
  end_date: daySchema('The last UTC day, inclusive.'),
};

/** The same as Billing takes them. */
export const daysQuery = ({ start_date, end_date }: { start_date?: string; end_date?: string }) => ({
  startDate: readDay(start_date, 'start_date'),
  endDate: readDay(end_date, 'end_date'),
});
