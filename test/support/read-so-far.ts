import { expect } from 'vitest';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { rowsOf } from './postgres.ts';

/** A number from the server's statistics, in SQL; the server knows what was read when those who read are gone. */
export async function readSoFar(url: DatabaseUrl, statistic: string): Promise<number> {
  const others = `select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
    and backend_type = 'client backend'`;
  await expect.poll(() => rowsOf(url, others)).toEqual([]);
  return (await rowsOf(url, `select (${statistic})::float8 as read`))[0].read;
}
