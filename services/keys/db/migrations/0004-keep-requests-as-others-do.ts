import { Migration } from '@mikro-orm/migrations';

/** What POSTs with an Idempotency-Key made, for 24 h, in the form that all services have; what was kept until now is forgotten. */
export class KeepRequestsAsOthersDo extends Migration {
  override up(): void {
    this.addSql(`drop table idempotency_keys; ${idempotencyKeys}`);
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
