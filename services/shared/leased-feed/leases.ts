import type { ServiceDatabase } from '#shared/db/orm.ts';

/** The channel that tells those who wait for a service's edges that one has acknowledged more. */
export const acknowledgedChannel = (service: string): string => `${service}_acknowledged`;

/** How long an edge may decide by what it was told, without renewing (design.md, Snapshots), in milliseconds. */
export const leaseMs = 2_000;

/** An edge that lacks a change of this age, in milliseconds, is no longer waited for: its lease is not renewed. */
const behindMsMax = 1_000;

type Database = Pick<ServiceDatabase, 'query' | 'service'>;

type Acknowledged = {
  edgeId: string;
  version: bigint;
  /** Who may extend the lease while the database is away, and until how long from now, in milliseconds. Without a keeper it lapses. */
  keeper?: { id: string | null; outageMs: number };
};

const nobody = { id: null, outageMs: leaseMs };

/** The answer to an edge's acknowledgement. */
export type Acknowledgement = {
  /** For how long the edge may decide by what it was told; 0: it has to catch up first. */
  leaseMs: number;
  /** Whether the edge must start anew: it knows more than its service does, as after a restored backup. */
  rewatch: boolean;
};

/** Records an acknowledgement: renews the edge's lease, or begins one when the edge knows everything. */
export async function acknowledge(database: Database, acknowledged: Acknowledged): Promise<Acknowledgement> {
  if (await renewLease(database, acknowledged)) return { leaseMs, rewatch: false };
  const { granted, currentVersion } = await beginLease(database, acknowledged);
  return { leaseMs: granted ? leaseMs : 0, rewatch: acknowledged.version > currentVersion };
}

/** Renews a lease that has not lapsed, unless the edge is too far behind. */
async function renewLease(database: Database, { edgeId, version, keeper = nobody }: Acknowledged): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'feed-renew-lease',
    text: `with before as (
        select edge_id, acknowledged_version from watchers
        where edge_id = $1 and lease_until > clock_timestamp()
        for update
      ), renewed as (
        update watchers set
          acknowledged_version = greatest(before.acknowledged_version, $2),
          lease_until = clock_timestamp() + $3 * interval '1 millisecond',
          outage_until = clock_timestamp() + $6 * interval '1 millisecond',
          keeper_id = $7
        from before
        where watchers.edge_id = before.edge_id and not exists (
          select from changes where version > $2 and changed_at < clock_timestamp() - $4 * interval '1 millisecond')
        returning before.acknowledged_version < $2 as advanced
      )
      select case when advanced then pg_notify($5, '') end from renewed`,
    values: [edgeId, version, leaseMs, behindMsMax, acknowledgedChannel(database.service), keeper.outageMs, keeper.id],
  });
  return rowCount === 1;
}

/**
 * Begins a lease for an edge that knows the current version. The lock on the feed's row orders this and changes: a change either commits
 * first, and the edge does not know it, or finds the edge among those it waits for.
 */
async function beginLease(
  database: Database,
  { edgeId, version, keeper = nobody }: Acknowledged,
): Promise<{ granted: boolean; currentVersion: bigint }> {
  const { rows } = await database.query<{ granted: boolean; version: bigint }>({
    name: 'feed-begin-lease',
    text: `with current as materialized (select version from feed for share),
      granted as (
        insert into watchers (edge_id, acknowledged_version, lease_until, outage_until, keeper_id)
        select $1, $2, clock_timestamp() + $3 * interval '1 millisecond', clock_timestamp() + $4 * interval '1 millisecond', $5
        from current where current.version = $2
        on conflict (edge_id) do update set
          acknowledged_version = excluded.acknowledged_version, lease_until = excluded.lease_until,
          outage_until = excluded.outage_until, keeper_id = excluded.keeper_id
        returning edge_id
      )
      select version, exists (select from granted) as granted from current`,
    values: [edgeId, version, leaseMs, keeper.outageMs, keeper.id],
  });
  return { granted: rows[0]!.granted, currentVersion: rows[0]!.version };
}

/** Forgets an edge that decides nothing any more, and tells those who waited for it. */
export async function dropWatcher(database: Database, edgeId: string): Promise<void> {
  await database.query({
    text: `with gone as (delete from watchers where edge_id = $1 returning edge_id)
      select pg_notify($2, '') from gone`,
    values: [edgeId, acknowledgedChannel(database.service)],
  });
}

const longestLease = `clock_timestamp() + $1 * interval '1 millisecond'`;

/**
 * How many edges that may still decide have not acknowledged a version. Lapsed leases are deleted first: a concurrent renewal either comes
 * before and counts, or finds its row gone and has to begin a new lease. A lease that has lapsed here may have been extended by its keeper
 * without the database: keepers delete those that were not. A lease that ends later than any can was granted before the database's clock was
 * set back, and ends as if it were granted now.
 */
export async function countBehind(database: Database, version: bigint): Promise<number> {
  await database.query({
    name: 'feed-drop-lapsed',
    text: `with turned_back as (
        update watchers set lease_until = ${longestLease}, outage_until = outage_until - (lease_until - (${longestLease}))
        where lease_until > ${longestLease}
      )
      delete from watchers where lease_until <= clock_timestamp() and outage_until <= clock_timestamp()`,
    values: [leaseMs],
  });
  const { rows } = await database.query<{ behind: bigint }>({
    name: 'feed-count-behind',
    text: 'select count(*) as behind from watchers where acknowledged_version < $1',
    values: [version],
  });
  return Number(rows[0]!.behind);
}
