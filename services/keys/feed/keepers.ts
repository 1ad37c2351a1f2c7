import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { isRunning } from '#shared/is-running.ts';
import { leaseMs } from '#shared/leased-feed/leases.ts';

type Database = Pick<ServiceDatabase, 'query'>;

/**
 * Records that a keeper is in touch, and how far it has extended leases while it was not. After `deadlineMs` (database time) this does
 * nothing, since the keeper has given it up by then. Returns the database's time and whether it counted.
 */
export async function noteInTouch(
  database: Database,
  note: { keeperId: string; extendedEdgeIds: readonly string[]; deadlineMs: number | null },
): Promise<{ atMs: number; counted: boolean }> {
  const { rows } = await database.query<{ at_ms: number; counted: boolean }>({
    name: 'keys-note-in-touch',
    text: `with moment as materialized (select clock_timestamp() as at),
      counted as (select at from moment where $3::float8 is null or at < to_timestamp($3::float8 / 1000)),
      extended as (
        update watchers set lease_until =
          greatest(lease_until, least(counted.at + $6 * interval '1 millisecond', outage_until))
        from counted where edge_id = any($2::uuid[])
      ),
      seen as (
        insert into keepers (keeper_id, machine, pid, seen_at) select $1, $4, $5, at from counted
        on conflict (keeper_id) do update set seen_at = excluded.seen_at
      )
      select (extract(epoch from at) * 1000)::float8 as at_ms, exists (select from counted) as counted from moment`,
    values: [note.keeperId, note.extendedEdgeIds, note.deadlineMs, machine(), process.pid, leaseMs],
  });
  return { atMs: rows[0]!.at_ms, counted: rows[0]!.counted };
}

/** Records that these keepers will never extend a lease again. */
export async function noteGone(database: Database, keeperIds: readonly string[]): Promise<void> {
  await database.query({
    text: `update keepers set seen_at = 'infinity' where keeper_id = any($1::uuid[])`,
    values: [keeperIds],
  });
}

/** Records keepers on this machine that held a lease and whose process has died, so that nobody waits for what they might have extended. */
export async function noteDeadNeighbours(database: Database): Promise<void> {
  const { rows } = await database.query<{ keeper_id: string; pid: number }>({
    name: 'keys-neighbours',
    text: `select distinct keeper_id, pid from keepers join watchers using (keeper_id)
      where machine = $1 and lease_until <= clock_timestamp() and seen_at <> 'infinity'`,
    values: [machine()],
  });
  const dead = rows.filter(({ pid }) => !isRunning(pid)).map(({ keeper_id }) => keeper_id);
  if (dead.length > 0) await noteGone(database, dead);
}

/**
 * Deletes lapsed leases whose keepers were in touch with the database since, or are gone: nobody has extended those. A keeper seen in the
 * future was seen before the database's clock went back, which may be earlier than the lease.
 */
export async function dropLapsed(database: Database): Promise<void> {
  await database.query({
    name: 'keys-drop-lapsed',
    text: `delete from watchers using keepers
      where keepers.keeper_id = watchers.keeper_id and lease_until <= clock_timestamp()
        and (seen_at between lease_until and clock_timestamp() or seen_at = 'infinity')`,
    values: [],
  });
}

/** Where a process id is unambiguous: one boot of a machine and one namespace of process ids, on systems that have them. */
function machine(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}
