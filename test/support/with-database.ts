import type { DatabaseUrl } from '#shared/db/connection.ts';

/** The same server, another database. */
export function withDatabase(url: DatabaseUrl, database: string): DatabaseUrl {
  const copy = new URL(url);
  copy.pathname = `/${database}`;
  return copy.href;
}
