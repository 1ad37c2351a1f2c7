import type { Logger } from '#shared/logger.ts';
import { isOutOfReach } from './errors.ts';
import type { ServiceDatabase } from './orm.ts';

/**
 * The version that follows `version`, in SQL: the time in microseconds, or one more. A failover may lose what was committed last, and
 * whoever had heard of it would take what gets the same numbers afterwards for known: times are not given out again.
 */
export const nextVersion = 'greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)';

const serverTimeline = 'substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)';

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
      // Looked at first: a server that takes no writes at the moment is still read from.
      const { rows } = await database.query<{ is_another: boolean }>({
        name: `${table}-timeline`,
        text: `select timeline is distinct from ${serverTimeline} as is_another from ${table}`,
        values: [],
      });
      if (!rows[0]!.is_another) return;
      await database.query({
        name: `${table}-failover`,
        text: `
          with before as (
            select timeline, ${nextVersion} as next from ${table} where timeline is distinct from ${serverTimeline} for update
          ), after as (
            update ${table} set timeline = ${serverTimeline}, ${raised.join(', ')}
            from before
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
