import { Migration } from '@mikro-orm/migrations';

/** Rate limits of an organization's own in place of its plan's, and what POSTs with an Idempotency-Key answered, for 24 h. */
export class AddRateLimits extends Migration {
  override up(): void {
    // 0: the plan's.
    this.addSql(`
      alter table accounts
        add column requests_per_minute bigint not null default 0 check (requests_per_minute >= 0),
        add column tokens_per_minute bigint not null default 0 check (tokens_per_minute >= 0),
        add column concurrent_requests bigint not null default 0 check (concurrent_requests >= 0);
    `);
    this.addSql(idempotencyKeys);
  }
}

const idempotencyKeys = `
  create table idempotency_keys (
    user_id uuid not null,
    key text not null,
    request_hash bytea not null,
    response bytea not null,
    created_at timestamptz not null,
    primary key (user_id, key)
  );
  create index idempotency_keys_by_age on idempotency_keys (created_at);
`;
