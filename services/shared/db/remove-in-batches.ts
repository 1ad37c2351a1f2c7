import type pg from 'pg';
import type { ServiceDatabase } from './orm.ts';

/**
 * Repeats a deletion that is limited to what a statement can delete in its time, until it finds nothing more or `signal` aborts; returns
 * how many rows are gone.
 */
export async function removeInBatches(
  database: Pick<ServiceDatabase, 'query'>,
  statement: pg.QueryConfig<unknown[]>,
  signal?: AbortSignal,
): Promise<number> {
  let removed = 0;
  while (!signal?.aborted) {
    const { rowCount } = await database.query(statement);
    if (!rowCount) break;
    removed += rowCount;
  }
  return removed;
}
