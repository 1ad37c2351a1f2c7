import type pg from 'pg';

/** What statements are sent through: a connection inside a transaction, or the pool. int8 is bigint, date is text. */
export type Sql = Pick<pg.ClientBase, 'query'>;

/**
 * An array of ids, numbers, booleans or ISO dates as Postgres reads it. pg would quote and escape each element, which for a batch of
 * charges costs more than all reckoning; none of these can have a character that needs it.
 */
export const plainArray = (values: readonly (string | number | bigint | boolean | null)[]): string =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`;

/** The database's clock. Not the start of the transaction: that may lie before the lock for which it waited. */
export async function databaseNow(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ now: Date }>({ name: 'now', text: 'select clock_timestamp() as now', values: [] });
  return rows[0]!.now.getTime();
}
