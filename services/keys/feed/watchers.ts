import type { ServiceDatabase } from '#shared/db/orm.ts';

/** Tells those who wait for edges that one has come further. */
export const acknowledgedChannel = 'keys_acknowledged';

/** How long an edge may decide from its cache without renewing (design.md, Snapshots), in milliseconds. */
export const leaseMs = 2_000;

/** An edge which is behind a change of this age is not waited for any further: its lease is not renewed, in milliseconds. */
const behindMsMax = 1_000;

type Database = Pick<ServiceDatabase, 'query'>;

/**
 * Begins or goes on with an edge's lease, so that from now on changes wait for it. Answers the feed's version at that moment.
 * The lock on the feed's row orders the two: a change which did not see this edge has committed, and is not above the answer.
 */
export async function openWatcher(database: Database, edgeId: string, knownVersion: bigint): Promise<bigint> {
  const { rows } = await database.query<{ version: bigint }>({
    name: 'keys-open-watcher',
    text: `with current as materialized (select version from feed for share),
      opened as (
        insert into watchers (edge_id, acknowledged_version, lease_until)
        select $1, $2, clock_timestamp() + $3 * interval '1 millisecond' from current
        on conflict (edge_id) do update
          set acknowledged_version = excluded.acknowledged_version, lease_until = excluded.lease_until
      )
      select version from current`,
    values: [edgeId, knownVersion, leaseMs],
  });
  return rows[0]!.version;
}

/** Renews an edge's lease; false when it has none, or is too far behind, so that it must open the feed again. */
export async function renewWatcher(database: Database, edgeId: string, version: bigint): Promise<boolean> {
  const { rowCount } = await database.query({
    name: 'keys-renew-watcher',
    text: `with before as (
        select edge_id, acknowledged_version from watchers
        where edge_id = $1 and lease_until > clock_timestamp()
        for update
      ), renewed as (
        update watchers set
          acknowledged_version = greatest(before.acknowledged_version, $2),
          lease_until = clock_timestamp() + $3 * interval '1 millisecond'
        from before
        where watchers.edge_id = before.edge_id and not exists (
          select from changes where version > $2 and changed_at < clock_timestamp() - $4 * interval '1 millisecond')
        returning before.acknowledged_version < $2 as advanced
      )
      select case when advanced then pg_notify($5, '') end from renewed`,
    values: [edgeId, version, leaseMs, behindMsMax, acknowledgedChannel],
  });
  return rowCount === 1;
}

/**
 * How many live edges have not acknowledged a version. Lapsed leases are deleted first: a renewal that runs at the same time
 * either comes before and is counted, or finds its row gone and fails.
 */
export async function countBehind(database: Database, version: bigint): Promise<number> {
  await database.query({
    name: 'keys-drop-lapsed',
    text: 'delete from watchers where lease_until <= clock_timestamp()',
    values: [],
  });
  const { rows } = await database.query<{ behind: bigint }>({
    name: 'keys-count-behind',
    text: 'select count(*) as behind from watchers where acknowledged_version < $1',
    values: [version],
  });
  return Number(rows[0]!.behind);
}
