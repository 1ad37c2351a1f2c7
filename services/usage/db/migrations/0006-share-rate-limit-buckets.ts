import { Migration } from '@mikro-orm/migrations';

/** The buckets of those whom several replicas serve, from which replicas are granted what they let through. */
export class ShareRateLimitBuckets extends Migration {
  override up(): void {
    this.addSql(`
      drop table rate_limit_shares;
      -- Unlogged: after a crash of the database every bucket is empty again, which gives a subject a minute's worth at most.
      create unlogged table rate_limit_buckets (
        subject_id uuid primary key,
        leaked_at timestamptz not null,
        -- How full the buckets were then: the milliseconds in which the whole limit lets as much through.
        requests_ms double precision not null,
        tokens_ms double precision not null
      );
      create unlogged table rate_limit_concurrency (
        subject_id uuid not null,
        replica_id uuid not null references rate_limit_replicas (replica_id) on delete cascade,
        granted integer not null,
        primary key (subject_id, replica_id)
      );
      create index rate_limit_concurrency_of_replica on rate_limit_concurrency (replica_id);
    `);
  }
}
