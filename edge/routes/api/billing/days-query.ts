import { Type } from 'typebox';

const daySchema = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' });

/** The UTC days to which a list of money's documents is narrowed, as YYYY-MM-DD, both included. */
export const daysQuerySchema = { start_date: Type.Optional(daySchema), end_date: Type.Optional(daySchema) };
