import { isOutOfReach } from '#shared/db/errors.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { changedChannel, nextVersion } from './versions.ts';

/**
 * A failover may lose what was committed last, and edges know of it all the same, such as of a key that nobody could delete any more. A
 * server that takes over writes another timeline: then whoever knows an earlier version starts anew. Servers that tell no timeline, as
 * some that providers have changed, are taken for the same for ever.
 */
export async function startAnewBehindFailover(
  database: Pick<ServiceDatabase, 'query' | 'service'>,
  logger: Logger,
): Promise<void> {
  try {
    await database.query({
      name: 'feed-notice-failover',
      text: `
        with server as (select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline),
        before as (
          select feed.timeline, ${nextVersion} as next from feed, server
          where feed.timeline is distinct from server.timeline
          for update of feed
        ), after as (
          update feed set
            timeline = server.timeline,
            version = case when before.timeline is null then version else before.next end,
            anew_from = case when before.timeline is null then anew_from else before.next end
          from server, before
          returning before.timeline is not null as is_failover, version
        )
        select pg_notify($1, version::text) from after where is_failover`,
      values: [changedChannel(database.service)],
    });
  } catch (error) {
    if (isOutOfReach(error)) throw error;
    logger.warn(
      { err: error },
      'the database tells no timeline: behind a failover that loses changes restart the gateway',
    );
  }
}
