import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { canReplay, readEvents } from '../feed/read-events.ts';
import { openWatcher } from '../feed/watchers.ts';

/** A heartbeat comes after this much quiet, in milliseconds. The feed is read as often, should a notification be lost. */
const heartbeatMs = 500;

/** Ends with an error when the database is out of reach; the edge opens the feed again from where it was. */
export const watchKeys = ({ database, feed }: Pick<KeysDeps, 'database' | 'feed'>): KeysRpc<'watchKeys'> =>
  async function* ({ edgeId, afterVersion }, context) {
    requireService(callerOf(context), 'edge');
    const { signal } = context;
    const currentVersion = await openWatcher(database, edgeId, afterVersion);
    let version = afterVersion;
    if (!(await canReplay(database, afterVersion, currentVersion))) {
      version = currentVersion;
      yield { version, event: { case: 'cacheReset', value: {} } };
    }
    while (!signal.aborted) {
      const nextChange = feed.nextChange(heartbeatMs, signal);
      const news = await readEvents(database, version);
      yield* news.events;
      version = news.version;
      yield { version, event: { case: 'heartbeat', value: {} } };
      await nextChange;
    }
  };
