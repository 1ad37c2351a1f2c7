import type pg from 'pg';
import type { OtherShares } from '../domain/rate-limit-share.ts';

type Client = Pick<pg.ClientBase, 'query'>;

/** A replica is alive for this long after its last report, and its shares hold as long, in milliseconds. */
export const shareLifetimeMs = 5_000;

/** What a replica holds of a subject, with how long ago it said so. */
export type HeldShare = {
  subjectId: string;
  elapsedMs: number;
  demand: number;
  share: number;
  requestsFill: number;
  tokensFill: number;
  concurrentRequests: number;
};

/** Notes that a replica lives, forgets the dead with what they held, and answers how many live. One report at a time. */
export async function reportReplica(client: Client, replicaId: string): Promise<number> {
  await client.query(`select pg_advisory_xact_lock(hashtext('usage.rate_limit_shares'))`);
  await client.query({
    text: `insert into rate_limit_replicas (replica_id, seen_at) values ($1, now())
      on conflict (replica_id) do update set seen_at = excluded.seen_at`,
    values: [replicaId],
  });
  await client.query({
    text: `delete from rate_limit_replicas where seen_at < now() - make_interval(secs => $1)`,
    values: [shareLifetimeMs / 1000],
  });
  const { rows } = await client.query<{ count: bigint }>('select count(*) as count from rate_limit_replicas');
  return Number(rows[0]!.count);
}

/** What a replica holds of some subjects. */
export async function heldShares(client: Client, replicaId: string, subjectIds: readonly string[]) {
  const { rows } = await client.query<HeldShare>({
    text: `select subject_id as "subjectId", extract(epoch from now() - reported_at)::float8 * 1000 as "elapsedMs",
        demand, share, requests_fill as "requestsFill", tokens_fill as "tokensFill",
        concurrent_requests::float8 as "concurrentRequests"
      from rate_limit_shares where replica_id = $1 and subject_id = any($2::uuid[])`,
    values: [replicaId, subjectIds],
  });
  return new Map(rows.map((row) => [row.subjectId, row]));
}

/** What all other replicas together hold of some subjects. */
export async function sharesOfOthers(client: Client, replicaId: string, subjectIds: readonly string[]) {
  const { rows } = await client.query<OtherShares & { subjectId: string }>({
    text: `select subject_id as "subjectId", sum(demand) as demand, sum(share) as share, count(*)::float8 as count
      from rate_limit_shares where replica_id <> $1 and subject_id = any($2::uuid[]) group by 1`,
    values: [replicaId, subjectIds],
  });
  return new Map(rows.map((row) => [row.subjectId, row]));
}

/** Keeps what a replica holds now. Its other subjects have gone quiet, and what it held of them is free again. */
export async function keepShares(
  client: Client,
  replicaId: string,
  shares: readonly Omit<HeldShare, 'elapsedMs'>[],
): Promise<void> {
  const column = (name: Exclude<keyof HeldShare, 'elapsedMs'>) => shares.map((share) => share[name]);
  await client.query({
    text: 'delete from rate_limit_shares where replica_id = $1 and not (subject_id = any($2::uuid[]))',
    values: [replicaId, column('subjectId')],
  });
  await client.query({
    text: `insert into rate_limit_shares
        (replica_id, reported_at, subject_id, demand, share, requests_fill, tokens_fill, concurrent_requests)
      select $1, now(), * from unnest($2::uuid[], $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::bigint[])
      on conflict (subject_id, replica_id) do update set reported_at = excluded.reported_at, demand = excluded.demand,
        share = excluded.share, requests_fill = excluded.requests_fill, tokens_fill = excluded.tokens_fill,
        concurrent_requests = excluded.concurrent_requests`,
    values: [
      replicaId,
      column('subjectId'),
      column('demand'),
      column('share'),
      column('requestsFill'),
      column('tokensFill'),
      column('concurrentRequests'),
    ],
  });
}

/** What all live replicas hold of a subject, as far as they have said, and how many they are. */
export async function standingOf(client: Client, subjectId: string) {
  const { rows } = await client.query<HeldShare & { replicas: number }>({
    text: `with live as (
        select replica_id from rate_limit_replicas where seen_at >= now() - make_interval(secs => $2)
      )
      select (select count(*)::float8 from live) as replicas, subject_id as "subjectId", share, demand,
        extract(epoch from now() - reported_at)::float8 * 1000 as "elapsedMs",
        requests_fill as "requestsFill", tokens_fill as "tokensFill", concurrent_requests::float8 as "concurrentRequests"
      from (select 1) as always left join (
        select s.* from rate_limit_shares s join live using (replica_id) where subject_id = $1
      ) as held on true`,
    values: [subjectId, shareLifetimeMs / 1000],
  });
  return { replicas: rows[0]!.replicas, held: rows.filter(({ subjectId: id }) => id !== null) };
}
