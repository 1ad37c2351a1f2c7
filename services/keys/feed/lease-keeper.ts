import { setTimeout as delay } from 'node:timers/promises';
import { type Clock, systemClock } from '#shared/clock.ts';
import { isOutOfReach } from '#shared/db/errors.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type Acknowledgement, acknowledge, dropWatcher, leaseMs } from '#shared/leased-feed/leases.ts';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { dropLapsed, noteDeadNeighbours, noteGone, noteInTouch } from './keepers.ts';

/**
 * This process's part in the edges' leases. While the database answers, it alone grants them. While it does not, the keeper extends those
 * that it had granted itself, by 2 s at a time and for 60 s in all, so that cached keys outlast a restart of Postgres. Another process of
 * Keys may still reach the database and commit a deletion, which must not be answered meanwhile. Therefore:
 * - each lease is stored with its keeper and with the longest time to which that may extend it;
 * - whoever waits for an edge believes a lapsed lease only if its keeper was in touch with the database afterwards, has died, or the
 *   longest time has passed;
 * - a keeper that is in touch again stores its extensions in the same statement that says so, and extends nothing while that statement may
 *   still count;
 * - an edge accepts extensions only from the process that granted its last lease.
 */
export type LeaseKeeper = {
  /** `holder` is the keeper from which the edge had its last lease. */
  acknowledge(edgeId: string, version: bigint, holder: string): Promise<Acknowledgement & { leaseHolder: string }>;
  leave(edgeId: string): Promise<void>;
  /** Whether the database has answered recently. */
  readonly isInTouch: boolean;
  /**
   * Reports now what the next beat would report, for a call that waits for edges; and deletes the lapsed leases that nobody has extended.
   */
  settleLapsed(): Promise<void>;
  close(): Promise<void>;
};

/** The longest that an edge may go on while the database is away (reliability.md, How), in milliseconds. */
const outageMsMax = 60_000;

/** `recordedMs`: taken before the lease was stored, so that the keeper's minute ends before the stored one. */
type Grant = { recordedMs: number; untilMs: number; isExtended: boolean };

/** How long an acknowledgement waits for the database before checking whether that is away, in milliseconds. */
const patienceMs = 400;
/** After how long that check counts as unanswered, in milliseconds. An edge waits 1 s for both. */
const giveUpMs = 300;

export async function openLeaseKeeper(options: {
  database: Pick<ServiceDatabase, 'query' | 'service'>;
  clock: Pick<Clock, 'monotonic'>;
  logger: Logger;
  beatMs: number;
}): Promise<LeaseKeeper> {
  const { database, clock, logger, beatMs } = options;
  const keeperId = uuidv7();
  const keeper = { id: keeperId, outageMs: outageMsMax };
  const grants = new Map<string, Grant>();
  const failures = new RepeatedFailures('the database', logger);
  /** The database's last answer: its time, and when it came, both in milliseconds. */
  let contact: { databaseMs: number; heardMs: number } | null = null;
  let isInTouch = true;
  let touching: Promise<void> | null = null;
  let closed = false;

  /** The latest database time at which a statement sent now may execute and still count; the statement runs in real time. */
  const deadline = (): number | null =>
    contact === null ? null : contact.databaseMs + (systemClock.monotonic() - contact.heardMs) + giveUpMs;

  const beat = async (): Promise<void> => {
    const nowMs = clock.monotonic();
    const extendedEdgeIds = [...grants].filter(([, { isExtended }]) => isExtended).map(([edgeId]) => edgeId);
    const note = { keeperId, extendedEdgeIds, deadlineMs: deadline() };
    try {
      const answer = await within(giveUpMs, noteInTouch(database, note));
      contact = { databaseMs: answer.atMs, heardMs: systemClock.monotonic() };
      if (!answer.counted) throw new Error('the database answered too late');
      for (const [edgeId, grant] of grants) if (extendedEdgeIds.includes(edgeId)) grant.isExtended = false;
      failures.succeeded();
      isInTouch = true;
    } catch (err) {
      failures.failed(err, 'does not answer Keys: edges go on with the keys they know for at most a minute');
      isInTouch = false;
    }
    for (const [edgeId, grant] of grants) if (nowMs > grant.recordedMs + outageMsMax) grants.delete(edgeId);
  };
  const touch = (): Promise<void> => {
    touching ??= beat().finally(() => {
      touching = null;
    });
    return touching;
  };

  /**
   * Asks the database whether it answers now. If it does not, `otherwise` is done in the same step in which no statement is under way: after
   * a promise there could be another one.
   */
  const asked = async <Result>(otherwise: () => Result): Promise<Result | null> => {
    await touch();
    while (touching !== null) await touching;
    return isInTouch ? null : otherwise();
  };

  const acknowledgeInDatabase = async (edgeId: string, version: bigint): Promise<Acknowledgement> => {
    const recordedMs = clock.monotonic();
    const answer = await acknowledge(database, { edgeId, version, keeper });
    const untilMs = recordedMs + answer.leaseMs;
    const grant = grants.get(edgeId);
    // This answer was given before an outage: the extension made since is longer, and has yet to be stored.
    if (grant?.isExtended === true && grant.untilMs > untilMs) return answer;
    if (answer.leaseMs === 0) grants.delete(edgeId);
    else grants.set(edgeId, { recordedMs, untilMs, isExtended: false });
    return answer;
  };

  /** Only leases that have not lapsed are extended: somebody who looked at the stored lease meanwhile may have counted the edge out. */
  const extend = (edgeId: string, holder: string): Acknowledgement => {
    const nowMs = clock.monotonic();
    const grant = grants.get(edgeId);
    if (closed || grant === undefined || holder !== keeperId || grant.untilMs <= nowMs)
      return { leaseMs: 0, rewatch: false };
    const untilMs = Math.min(nowMs + leaseMs, grant.recordedMs + outageMsMax);
    if (untilMs <= nowMs) return { leaseMs: 0, rewatch: false };
    grant.untilMs = untilMs;
    grant.isExtended = true;
    return { leaseMs: Math.floor(untilMs - nowMs), rewatch: false };
  };

  const answerOf = async (edgeId: string, version: bigint, holder: string): Promise<Acknowledgement> => {
    const extension = () => extend(edgeId, holder);
    const extended = isInTouch ? null : await asked(extension);
    if (extended !== null) return extended;
    const stored = acknowledgeInDatabase(edgeId, version);
    try {
      return await within(patienceMs, stored);
    } catch (error) {
      if (!isOutOfReach(error)) throw error;
      // Handled here, since nobody may await it any more.
      stored.catch(() => {});
      return (await asked(extension)) ?? stored;
    }
  };

  await touch();
  const timer = setInterval(() => void touch(), beatMs).unref();

  return {
    async acknowledge(edgeId, version, holder) {
      return { ...(await answerOf(edgeId, version, holder)), leaseHolder: keeperId };
    },
    async leave(edgeId) {
      grants.delete(edgeId);
      await dropWatcher(database, edgeId);
    },
    get isInTouch() {
      return isInTouch;
    },
    async settleLapsed() {
      if (!closed) await touch();
      await noteDeadNeighbours(database);
      await dropLapsed(database);
    },
    async close() {
      closed = true;
      clearInterval(timer);
      // Extensions are stored before announcing that there will be no more.
      await asked(() => null);
      if (!isInTouch) return;
      await noteGone(database, [keeperId]).catch((err) => {
        logger.warn({ err }, 'the end of this process of Keys could not be recorded');
      });
    },
  };
}

/** What takes longer fails as a query to a database that is away does. */
async function within<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  const enough = new AbortController();
  const late = delay(ms, undefined, { signal: enough.signal }).then(() => {
    throw new Error('The database does not answer in time');
  });
  late.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    enough.abort();
    work.catch(() => {});
  }
}
