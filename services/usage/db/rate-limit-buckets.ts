import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import type { BucketLevels } from '../domain/rate-limit-bucket.ts';

/** How long a replica counts as alive after its last report, in milliseconds. */
export const replicaLifetimeMs = 5_000;

/** A subject's buckets, leaked up to now. */
type Buckets = BucketLevels & { subjectId: string };

/**
 * Whether a time was written before the database's clock was set back: it lies further ahead than what a transaction wrote that began after
 * this one, but had its turn first.
 */
const predatesSetBack = (time: string): string =>
  `${time} > now() + make_interval(secs => ${replicaLifetimeMs / 1000})`;

/** After the clock went back, buckets leak from then on; otherwise they would fill by as much. */
const leakedMs = `case when ${predatesSetBack('leaked_at')} then 0 else extract(epoch from now() - leaked_at)::float8 * 1000 end`;
const leakedColumns = `greatest(0, requests_ms - ${leakedMs}) as "requestsMs",
  greatest(0, tokens_ms - ${leakedMs}) as "tokensMs",
  requests_per_minute as "requestsPerMinute", tokens_per_minute as "tokensPerMinute"`;

const isAlive = `(seen_at >= now() - make_interval(secs => ${replicaLifetimeMs / 1000}) and not ${predatesSetBack('seen_at')})`;

/** Records that a replica is alive, forgets dead ones with what they ran, and returns how many are alive. */
export async function reportReplica(database: Pick<ServiceDatabase, 'query'>, replicaId: string): Promise<number> {
  const { rows } = await database.query<{ count: bigint }>({
    name: 'rate-limit-replica',
    // After an outage all are dead to each other: each holds its own row, which `dead` reads for that, before it locks those of others.
    text: `with reported as (
        insert into rate_limit_replicas (replica_id, seen_at) values ($1, now())
        on conflict (replica_id) do update set seen_at = excluded.seen_at
        returning replica_id
      ),
      dead as (
        select replica_id from rate_limit_replicas
        where replica_id <> (select replica_id from reported) and not ${isAlive} for update skip locked
      ),
      forgotten as (delete from rate_limit_replicas where replica_id in (select replica_id from dead))
      select 1 + count(*) as count from rate_limit_replicas where replica_id <> $1 and ${isAlive}`,
    values: [replicaId],
  });
  return Number(rows[0]!.count);
}

/** The buckets of those subjects that have any. */
export async function readBuckets(client: Sql, subjectIds: readonly string[]): Promise<Map<string, Buckets>> {
  const { rows } = await client.query<Buckets>({
    text: `select subject_id as "subjectId", ${leakedColumns} from rate_limit_buckets where subject_id = any($1::uuid[])`,
    values: [subjectIds],
  });
  return new Map(rows.map((row) => [row.subjectId, row]));
}

/** What every other replica was granted of a subject's concurrent requests. */
export async function concurrentOfOthers(
  client: Sql,
  replicaId: string,
  subjectIds: readonly string[],
): Promise<Map<string, number[]>> {
  const { rows } = await client.query<{ subjectId: string; granted: number[] }>({
    text: `select subject_id as "subjectId", array_agg(granted) as granted from rate_limit_concurrency
      where replica_id <> $1 and subject_id = any($2::uuid[]) group by 1`,
    values: [replicaId, subjectIds],
  });
  return new Map(rows.map(({ subjectId, granted }) => [subjectId, granted]));
}

/** Stores the subjects' buckets, and what the replica may now run of each. */
export async function keepGrants(
  client: Sql,
  replicaId: string,
  grants: readonly (Buckets & { concurrent: number })[],
): Promise<void> {
  const column = (name: keyof (typeof grants)[number]) => grants.map((grant) => grant[name]);
  await client.query({
    text: `insert into rate_limit_buckets
        (leaked_at, subject_id, requests_ms, tokens_ms, requests_per_minute, tokens_per_minute)
      select now(), * from unnest($1::uuid[], $2::float8[], $3::float8[], $4::int[], $5::int[])
      on conflict (subject_id) do update set leaked_at = excluded.leaked_at, requests_ms = excluded.requests_ms,
        tokens_ms = excluded.tokens_ms, requests_per_minute = excluded.requests_per_minute,
        tokens_per_minute = excluded.tokens_per_minute`,
    values: [
      column('subjectId'),
      column('requestsMs'),
      column('tokensMs'),
      column('requestsPerMinute'),
      column('tokensPerMinute'),
    ],
  });
  await client.query({
    text: `with now_granted as (select * from unnest($2::uuid[], $3::int[]) as grants (subject_id, granted)), ended as (
        delete from rate_limit_concurrency using now_granted
        where replica_id = $1 and rate_limit_concurrency.subject_id = now_granted.subject_id and now_granted.granted = 0
      )
      insert into rate_limit_concurrency (replica_id, subject_id, granted)
      select $1, subject_id, granted from now_granted where granted > 0
      on conflict (subject_id, replica_id) do update set granted = excluded.granted`,
    values: [replicaId, column('subjectId'), column('concurrent')],
  });
}

/** How many replicas are alive, and a subject's state over all of them. */
export async function standingOf(client: Sql, subjectId: string) {
  const { rows } = await client.query<Omit<Buckets, 'subjectId'> & { replicas: number; concurrent: number }>({
    text: `with live as (
        select replica_id from rate_limit_replicas where ${isAlive}
      )
      select (select count(*)::float8 from live) as replicas, coalesce("requestsMs", 0) as "requestsMs",
        coalesce("tokensMs", 0) as "tokensMs", coalesce("requestsPerMinute", 0) as "requestsPerMinute",
        coalesce("tokensPerMinute", 0) as "tokensPerMinute",
        (select coalesce(sum(granted), 0)::float8 from rate_limit_concurrency join live using (replica_id)
          where subject_id = $1) as concurrent
      from (select 1) as always
      left join (select ${leakedColumns} from rate_limit_buckets where subject_id = $1) as buckets on true`,
    values: [subjectId],
  });
  return rows[0]!;
}

/** Forgets buckets that have leaked out, which changes nothing. */
export async function dropEmptyBuckets(database: Pick<ServiceDatabase, 'query'>): Promise<void> {
  await database.query({
    text: `delete from rate_limit_buckets where greatest(requests_ms, tokens_ms) <= ${leakedMs}`,
  });
}
