import { Type } from 'typebox';

const day = (description: string) =>
  Type.Optional(Type.String({ format: 'date', pattern: '^\\d{4}-\\d{2}-\\d{2}$', description }));

/** The UTC days to which a list of invoices or transactions is narrowed, as YYYY-MM-DD, both included. */
export const daysQuerySchema = {
  start_date: day('The first UTC day, as YYYY-MM-DD.'),
  end_date: day('The last UTC day, inclusive.'),
};
