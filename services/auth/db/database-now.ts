import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';

/** The time by the database's clock, moved as far as a process's clock is from the machine's, in milliseconds. */
export async function databaseNow(database: Pick<ServiceDatabase, 'query'>, clock: Clock): Promise<number> {
  const { rows } = await database.query<{ now: Date }>({
    name: 'auth-now',
    text: 'select clock_timestamp() as now',
    values: [],
  });
  return rows[0]!.now.getTime() + clock.now() - Date.now();
}
