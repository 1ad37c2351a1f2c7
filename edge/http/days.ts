import { Type } from 'typebox';
import { invalidValue } from '#shared/errors.ts';

/** A query's UTC or local day. Its form is checked by `readDays`: a schema would answer with a pattern. */
export const daySchema = (description: string) => Type.Optional(Type.String({ format: 'date', description }));

/**
 * The first and last day as services take them: empty for none. They check whether there are such days.
 *
 * @throws GatewayError INVALID_REQUEST that names the parameter.
 */
export const readDays = ({ start_date, end_date }: { start_date?: string; end_date?: string }) => ({
  startDate: readDay(start_date, 'start_date'),
  endDate: readDay(end_date, 'end_date'),
});

function readDay(day: string | undefined, param: string): string {
  if (day === undefined) return '';
  if (/^\d{4}-\d{2}-\d{2}$/.test(day)) return day;
  throw invalidValue(param, 'expected a date as YYYY-MM-DD');
}
