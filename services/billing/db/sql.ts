import type pg from 'pg';

/** What runs statements: a connection inside a transaction, or the pool. int8 is a bigint, date is text. */
export type Sql = Pick<pg.ClientBase, 'query'>;

/**
 * An array of ids, numbers, booleans or ISO dates in the form that Postgres reads. pg would quote and escape each element, which for a
 * batch of charges costs more than all arithmetic; none of these can contain a character that needs it.
 */
export const plainArray = (values: readonly (string | number | bigint | boolean | null)[]): string =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`;

/** The time by the database's clock, now rather than at the start of the transaction, which may be before the lock it waited for. */
export async function databaseNow(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ now: Date }>({ name: 'now', text: 'select clock_timestamp() as now', values: [] });
  return rows[0]!.now.getTime();
}
