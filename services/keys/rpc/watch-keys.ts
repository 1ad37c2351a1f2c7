import { setTimeout as delay } from 'node:timers/promises';
import { GatewayError } from '#shared/errors.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { type FeedEvent, readEvents, startOfFeed } from '../feed/read-events.ts';

/**
 * Tells an edge of changes, or by a heartbeat after some quiet that there are none; the feed is read as often, should a
 * notification be lost. Nobody waits for the edge before it has acknowledged the current version. While the database is out of
 * reach heartbeats go on: whether the edge may is told by what it gets for its acknowledgements.
 */
export const watchKeys = ({ database, feed }: Pick<KeysDeps, 'database' | 'feed'>): KeysRpc<'watchKeys'> =>
  async function* ({ afterVersion }, context) {
    requireService(callerOf(context), 'edge');
    const { signal } = context;
    const { heartbeatMs } = feed;
    let { version, reset } = await startOfFeed(database, afterVersion);
    if (reset) yield { version, event: { case: 'cacheReset', value: {} } };
    while (!signal.aborted) {
      const nextChange = feed.nextChange(heartbeatMs, signal);
      const reading = readNews(feed.leases.isInTouch ? database : null, version);
      // The answer of a database that falls silent must not keep the edge waiting for a sign of life.
      let news = await Promise.race([reading, delay(heartbeatMs, undefined, { ref: false })]);
      while (news === undefined) {
        yield { version, event: { case: 'heartbeat', value: {} } };
        news = await Promise.race([reading, delay(heartbeatMs, undefined, { ref: false })]);
      }
      yield* news.events;
      version = news.version;
      yield { version, event: { case: 'heartbeat', value: {} } };
      await nextChange;
    }
  };

/** No news without a database that answers. */
async function readNews(
  database: Parameters<typeof readEvents>[0] | null,
  afterVersion: bigint,
): Promise<{ events: FeedEvent[]; version: bigint }> {
  const none = { events: [], version: afterVersion };
  if (database === null) return none;
  try {
    return await readEvents(database, afterVersion);
  } catch (error) {
    if (error instanceof GatewayError) return none;
    throw error;
  }
}
