import { failoverNotice } from '#shared/db/failover.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { changedChannel } from './versions.ts';

/**
 * What a service's changes mean to edges. Only the last event of a version may carry its number: an edge that acknowledges a version must
 * know all of it.
 */
export type FeedSource<Change, Event> = {
  /** The first event for an edge that starts at a version. */
  start(version: bigint): Promise<Event>;
  /** The events for rows of `changes`, oldest first; they show the current states. */
  eventsOf(changes: readonly Change[]): Promise<Event[]>;
};

/** What an edge has not been told yet, the version that it knows afterwards, and whether there is more already. */
type News<Event> = { events: Event[]; version: bigint; hasMore: boolean };

/** Reads the changes of a service for edges, each of which knows some version. */
type ChangeReader<Event> = {
  /** @throws GatewayError OVERLOADED when the database is out of reach. */
  newsAfter(knownVersion: bigint): Promise<News<Event>>;
  /** The connection was lost: the next one may lead to another server, after a failover. */
  serverMayBeAnother(): void;
};

/** The most changes read at a time. */
const changesMax = 500;

export function createChangeReader<Change extends { version: bigint }, Event>(deps: {
  database: Pick<ServiceDatabase, 'query' | 'service'>;
  source: FeedSource<Change, Event>;
  logger: Logger;
}): ChangeReader<Event> {
  const { database, source, logger } = deps;
  const raiseVersionAfterFailover = failoverNotice({
    database,
    table: 'feed',
    columns: ['version', 'anew_from'],
    channel: changedChannel(database.service),
    logger,
  });
  let mayBeAnother = true;

  async function noticeFailover(): Promise<void> {
    if (!mayBeAnother) return;
    mayBeAnother = false;
    try {
      await raiseVersionAfterFailover();
    } catch (error) {
      mayBeAnother = true;
      throw error;
    }
  }

  return {
    /** An edge has missed nothing if the last version it knows is still kept, or is the current one, for which there need be no row. */
    async newsAfter(knownVersion) {
      await noticeFailover();
      const { rows } = await database.query<Change & { current_version: bigint; anew_from: bigint }>({
        name: 'feed-changes',
        text: `select feed.version as current_version, feed.anew_from, changes.* from feed left join changes on changes.version >= $1
          order by changes.version limit ${changesMax}`,
        values: [knownVersion],
      });
      const { version: first, current_version: current, anew_from: anewFrom } = rows[0]!;
      const hasMissed = first !== knownVersion && current !== knownVersion;
      if (hasMissed || knownVersion < anewFrom)
        return { events: [await source.start(current)], version: current, hasMore: false };
      const news = first === knownVersion ? rows.slice(1) : [];
      const version = news.at(-1)?.version ?? current;
      return { events: await source.eventsOf(news), version, hasMore: version < current };
    },
    serverMayBeAnother() {
      mayBeAnother = true;
    },
  };
}
