import type pg from 'pg';

/** What statements are sent through: a connection inside a transaction, or the pool. int8 is bigint, date is text. */
export type Sql = Pick<pg.ClientBase, 'query'>;

/** The database's clock. Not the start of the transaction: that may lie before the lock for which it waited. */
export async function databaseNow(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ now: Date }>({ name: 'now', text: 'select clock_timestamp() as now', values: [] });
  return rows[0]!.now.getTime();
}
