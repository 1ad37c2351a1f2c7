import { Type } from 'typebox';
import { invalidRequest } from '#shared/errors.ts';

/** A query's UTC or local day. Its form is checked by `readDay`: a schema would answer with a pattern. */
export const daySchema = (description: string) => Type.Optional(Type.String({ format: 'date', description }));

/**
 * The day as services take it: empty for none. They check whether there is such a day.
 *
 * @throws GatewayError INVALID_REQUEST that names the parameter.
 */
export function readDay(day: string | undefined, param: string): string {
  if (day === undefined) return '';
  if (/^\d{4}-\d{2}-\d{2}$/.test(day)) return day;
  throw invalidRequest(param, `Invalid value for \`${param}\`: expected a date as YYYY-MM-DD.`, 'invalid_value');
}
