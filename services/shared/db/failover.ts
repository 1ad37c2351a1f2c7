import type { Logger } from '#shared/logger.ts';
import { isOutOfReach } from './errors.ts';
import type { ServiceDatabase } from './orm.ts';

/**
 * SQL for the version after `version`: the time in microseconds, or one more. A failover may lose the latest commits; a reader who had
 * heard of a lost version would think it knows whatever gets the same number later. Numbers that are times are not given out twice.
 */
export const nextVersion = 'greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)';

const serverTimeline = 'substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)';

/**
 * A reader who heard of what a failover lost would go by it until the next change. A server that takes over writes another timeline: the
 * returned function then gives the version of a service's data its next number, once, in all named columns, and notifies `channel`. Call it
 * whenever the server may be another one, before reading the data. Servers that report no timeline, as some that providers have modified,
 * are always taken for the same one.
 */
export function failoverNotice(options: {
  database: Pick<ServiceDatabase, 'query'>;
  /** Its single row holds the version, and the timeline of the server that was last written to; null: none yet. */
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
      // Checked first, without writing: a server that takes no writes at the moment is still read from. A standby has no timeline yet.
      const { rows } = await database.query<{ is_another: boolean }>({
        name: `${table}-timeline`,
        text: `
          select case when pg_is_in_recovery() then false else timeline is distinct from ${serverTimeline} end as is_another
          from ${table}`,
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
      logger.warn(
        { err },
        'the timeline of the database cannot be read: restart the gateway after a failover that lost changes',
      );
    }
  };
}
