import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type pg from 'pg';
import type { Sql } from './sql.ts';

/** What can run a statement: a pg client or pool, or the ORM's unit of work. */
export type StatementRunner = Sql | SqlEntityManager;

/** The rows of a statement, in which each value is a question mark. */
export async function run<Row extends pg.QueryResultRow>(
  tx: StatementRunner,
  text: string,
  values: unknown[],
): Promise<Row[]> {
  if ('execute' in tx) return tx.execute<Row[]>(text, values);
  let count = 0;
  const { rows } = await tx.query<Row>(
    text.replaceAll('?', () => `$${++count}`),
    values,
  );
  return rows;
}
