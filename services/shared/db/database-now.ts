import type { ServiceDatabase } from './orm.ts';

/**
 * The time by the database's clock in milliseconds, now rather than at the start of the transaction, which may be before the lock it waited
 * for.
 */
export async function databaseNow(sql: Pick<ServiceDatabase, 'query'>): Promise<number> {
  const { rows } = await sql.query<{ now: Date }>({ name: 'now', text: 'select clock_timestamp() as now', values: [] });
  return rows[0]!.now.getTime();
}
