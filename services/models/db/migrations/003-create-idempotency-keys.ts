import { Migration } from '@mikro-orm/migrations';

/** What operators' POSTs with an Idempotency-Key answered, for 24 h. */
export class CreateIdempotencyKeys extends Migration {
  override up(): void {
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
