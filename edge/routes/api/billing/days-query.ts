import { daySchema } from '../../../http/days.ts';

/** The UTC days to which a list of invoices or transactions is narrowed, as YYYY-MM-DD, both included. */
export const daysQuerySchema = {
  start_date: daySchema('The first UTC day, as YYYY-MM-DD.'),
  end_date: daySchema('The last UTC day, inclusive.'),
};
