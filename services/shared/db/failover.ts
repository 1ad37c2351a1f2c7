import type { Logger } from '#shared/logger.ts';
import { isOutOfReach } from './errors.ts';
import type { ServiceDatabase } from './orm.ts';

/**
 * The version that follows `version`, in SQL: the time in microseconds, or one more. A failover may lose what was committed last, and
 * whoever had heard of it would take what gets the same numbers afterwards for known: times are not given out again.
 */
export const nextVersion = 'greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)';

/**
 * Whoever heard of what a failover lost would go by it until the next change. A server that took over writes another timeline: what is
 * made here gives the version of a service's data its next number then, once, in all columns that are named, and notifies `channel`.
 * Call it whenever the server may be another, before the data is read. Servers that tell no timeline, as some that providers have
 * changed, are taken for the same for ever.
 */
export function failoverNotice(options: {
  database: Pick<ServiceDatabase, 'query'>;
  /** Its one row has the version, and the timeline of the server that was written last; null: none yet. */
  table: string;
  columns: readonly string[];
  channel: string;
  logger: Logger;
}): () => Promise<void> {
  const { database, table, columns, channel, logger } = options;
  const raised = columns.map(
    (column) => `${column} = case when before.timeline is null then ${table}.${column} else before.next end`,
  );
  let isTold = true;
  return async () => {
    if (!isTold) return;
    try {
      await database.query({
        name: `${table}-failover`,
        text: `
          with server as (select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline),
          before as (
            select ${table}.timeline, ${nextVersion} as next from ${table}, server
            where ${table}.timeline is distinct from server.timeline
            for update of ${table}
          ), after as (
            update ${table} set timeline = server.timeline, ${raised.join(', ')}
            from server, before
            returning before.timeline is not null as is_failover
          )
          select pg_notify($1, '') from after where is_failover`,
        values: [channel],
      });
    } catch (err) {
      if (isOutOfReach(err)) throw err;
      isTold = false;
      logger.warn({ err }, 'the database tells no timeline: restart the gateway behind a failover that lost changes');
    }
  };
}
