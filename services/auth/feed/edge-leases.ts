import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceDatabase } from '#shared/db/orm.ts';

/** How long an edge decides from its snapshot after its last acknowledgement, in milliseconds (auth/v1/feed.proto). */
export const leaseMs = 2_000;

/** An edge that lacks a change which is older than this gets no longer lease, however often it acknowledges. */
const lagMsMax = 250;

/** How often a change that waits for edges looks at the leases, in milliseconds. */
const pollMs = 20;

/**
 * Which edges decide from a snapshot, how far they have come and until when. Kept in Postgres, since an edge acknowledges to
 * any replica of Auth; measured by the database's clock, since all replicas share it.
 */
export type EdgeLeases = {
  /** Makes every change from now on wait for the edge, as long as its lease runs. */
  open(edgeId: string): Promise<void>;
  /** What the edge may go on, in milliseconds; null for an edge whose lease has lapsed. */
  acknowledge(edgeId: string, version: bigint): Promise<number | null>;
  /** Forgets an edge which decides nothing any more. */
  drop(edgeId: string): Promise<void>;
  /** Resolves once no live edge is without the version: each has acknowledged it, or its lease has lapsed. */
  settled(version: bigint): Promise<void>;
};

export function createEdgeLeases(database: ServiceDatabase): EdgeLeases {
  const waiters = new Set<() => void>();

  /**
   * Lapsed leases are removed before they are counted out: a renewal at the same moment either comes first, and the edge is
   * waited for, or finds its row gone, and the edge must watch anew.
   */
  const someEdgeLacks = async (version: bigint): Promise<boolean> => {
    await database.query({
      name: 'auth-drop-lapsed-leases',
      text: 'delete from edge_leases where expires_at <= clock_timestamp()',
      values: [],
    });
    const { rowCount } = await database.query({
      name: 'auth-edges-without-version',
      text: 'select 1 from edge_leases where acknowledged_version < $1 limit 1',
      values: [version],
    });
    return rowCount !== 0;
  };

  return {
    async open(edgeId) {
      await database.query({
        text: `insert into edge_leases (edge_id, acknowledged_version, expires_at)
          values ($1, 0, clock_timestamp() + make_interval(secs => $2))
          on conflict (edge_id) do update set acknowledged_version = 0, expires_at = excluded.expires_at`,
        values: [edgeId, leaseMs / 1000],
      });
    },

    async acknowledge(edgeId, version) {
      const { rows } = await database.query<{ left_ms: number }>({
        name: 'auth-acknowledge',
        text: `update edge_leases set
            acknowledged_version = greatest(acknowledged_version, $2),
            expires_at = case
              when exists (select 1 from changes
                where version > $2 and changed_at < clock_timestamp() - make_interval(secs => $4))
              then expires_at else clock_timestamp() + make_interval(secs => $3) end
          where edge_id = $1 and expires_at > clock_timestamp()
          returning (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left_ms`,
        values: [edgeId, version, leaseMs / 1000, lagMsMax / 1000],
      });
      for (const wake of waiters) wake();
      return rows[0] === undefined ? null : Math.max(0, Math.floor(rows[0].left_ms));
    },

    async drop(edgeId) {
      await database.query({ text: 'delete from edge_leases where edge_id = $1', values: [edgeId] });
      for (const wake of waiters) wake();
    },

    async settled(version) {
      while (await someEdgeLacks(version)) {
        const woken = Promise.withResolvers<void>();
        waiters.add(woken.resolve);
        // An acknowledgement to another replica is seen by looking again.
        await Promise.race([woken.promise, delay(pollMs)]);
        waiters.delete(woken.resolve);
      }
    },
  };
}
