import { Migration } from '@mikro-orm/migrations';

/** Which replicas of the edge are alive, and how they share the limits of those whom several of them serve. */
export class CreateRateLimitShares extends Migration {
  override up(): void {
    this.addSql(`
      -- Unlogged: after a crash of the database replicas report again within seconds, and nothing else is lost.
      create unlogged table rate_limit_replicas (
        replica_id uuid primary key,
        seen_at timestamptz not null
      );
      create unlogged table rate_limit_shares (
        subject_id uuid not null,
        replica_id uuid not null references rate_limit_replicas (replica_id) on delete cascade,
        reported_at timestamptz not null,
        -- The part of the limits which the replica asked for lately, and the part which it was given.
        demand double precision not null,
        share double precision not null,
        -- How full the replica's part of the minute's buckets is.
        requests_fill double precision not null,
        tokens_fill double precision not null,
        concurrent_requests bigint not null,
        primary key (subject_id, replica_id)
      );
      create index rate_limit_shares_of_replica on rate_limit_shares (replica_id);
    `);
  }
}
