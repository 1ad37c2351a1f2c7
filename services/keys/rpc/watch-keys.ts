import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { readEvents, startOfFeed } from '../feed/read-events.ts';

/** A heartbeat comes after this much quiet, in milliseconds. The feed is read as often, should a notification be lost. */
const heartbeatMs = 500;

/**
 * Tells an edge of changes. Nobody waits for the edge before it has acknowledged the current version. Ends with an error when the
 * database is out of reach; the edge opens the feed again from where it was.
 */
export const watchKeys = ({ database, feed }: Pick<KeysDeps, 'database' | 'feed'>): KeysRpc<'watchKeys'> =>
  async function* ({ afterVersion }, context) {
    requireService(callerOf(context), 'edge');
    const { signal } = context;
    let { version, reset } = await startOfFeed(database, afterVersion);
    if (reset) yield { version, event: { case: 'cacheReset', value: {} } };
    while (!signal.aborted) {
      const nextChange = feed.nextChange(heartbeatMs, signal);
      const news = await readEvents(database, version);
      yield* news.events;
      version = news.version;
      yield { version, event: { case: 'heartbeat', value: {} } };
      await nextChange;
    }
  };
