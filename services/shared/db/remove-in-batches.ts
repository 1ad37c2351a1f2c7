import type pg from 'pg';
import type { ServiceDatabase } from './orm.ts';

/**
 * Repeats a deletion of at most `atOnce` rows until it finds fewer, or `signal` aborts; returns how many rows are gone. Deleting all at
 * once could take longer than a statement may.
 */
export async function removeInBatches(
  database: Pick<ServiceDatabase, 'query'>,
  statement: pg.QueryConfig<unknown[]>,
  atOnce: number,
  signal?: AbortSignal,
): Promise<number> {
  let removed = 0;
  while (!signal?.aborted) {
    const { rowCount } = await database.query(statement);
    removed += rowCount ?? 0;
    if ((rowCount ?? 0) < atOnce) break;
  }
  return removed;
}
