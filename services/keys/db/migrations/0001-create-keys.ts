import { Migration } from '@mikro-orm/migrations';

/** Keys and their digests, what Keys knows of users and organizations, the edges' feed, idempotency and the audit outbox. */
export class CreateKeys extends Migration {
  override up(): void {
    this.addSql(keys);
    this.addSql(ownersAndTenants);
    this.addSql(feed);
    this.addSql(batches);
    this.addSql(auditOutbox);
  }
}

const keys = `
  create table keys (
    tenant_id uuid not null,
    id uuid not null,
    user_id uuid not null,
    name text not null check (char_length(name) between 2 and 255),
    -- 1 inference, 2 management (modelgateway.keys.v1.KeyType).
    key_type smallint not null check (key_type between 1 and 2),
    preview text not null,
    scopes text[] not null check (cardinality(scopes) > 0),
    model_allowlist text[] not null default '{}',
    ip_allowlist text[] not null default '{}',
    spend_cap_nano_usd bigint check (spend_cap_nano_usd >= 0),
    -- 0 leaves a limit to the organization's plan.
    requests_per_minute bigint not null default 0,
    tokens_per_minute bigint not null default 0,
    concurrent_requests bigint not null default 0,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    deleted_at timestamptz,
    -- Both change once per batch of uses and stand in no index, so that the update stays within its page.
    last_used_at timestamptz,
    usage_count bigint not null default 0,
    primary key (tenant_id, id)
  ) with (fillfactor = 85);
  -- Operators and services name a key without its organization.
  create unique index keys_by_id on keys (id);
  create index keys_of_user on keys (tenant_id, user_id, id) where deleted_at is null;
  create index keys_by_allowed_model on keys using gin (model_allowlist)
    where deleted_at is null and revoked_at is null and cardinality(model_allowlist) > 0;

  -- Every secret which opens a key: the current one, and rotated ones until their grace period ends.
  create table digests (
    tenant_id uuid not null,
    key_id uuid not null,
    -- HMAC-SHA-256 of the secret under the pepper of this version.
    digest bytea not null check (length(digest) = 32),
    pepper_version integer not null,
    created_at timestamptz not null,
    -- Null: as long as the key.
    expires_at timestamptz,
    primary key (tenant_id, digest),
    foreign key (tenant_id, key_id) references keys (tenant_id, id)
  );
  create unique index digests_by_digest on digests (digest);
  create index digests_of_key on digests (tenant_id, key_id);

  -- How many undeleted keys each user of an organization may have; no row: the platform's default.
  create table quotas (
    tenant_id uuid primary key,
    -- Null: unlimited.
    keys_per_user bigint
  );

  -- What a POST with an Idempotency-Key made, for 24 h. The secret is derived from the salt and a pepper, which stands
  -- outside the database; without the row nobody can derive it again.
  create table idempotency_keys (
    tenant_id uuid not null,
    user_id uuid not null,
    key text not null,
    request_hash bytea not null,
    key_id uuid not null,
    salt bytea not null,
    pepper_version integer not null,
    previous_secret_expires_at timestamptz,
    created_at timestamptz not null,
    primary key (tenant_id, user_id, key)
  );
  create index idempotency_keys_by_age on idempotency_keys (created_at);
`;

const ownersAndTenants = `
  -- Users as far as their keys depend on them. Auth tells changes; until it has, the role is that of the caller who made the key.
  create table owners (
    tenant_id uuid not null,
    user_id uuid not null,
    role smallint not null,
    is_active boolean not null default true,
    -- The version of Auth's data; an older one never replaces a newer.
    auth_version numeric(20) not null default 0,
    primary key (tenant_id, user_id)
  );
  create table tenants (
    tenant_id uuid primary key,
    suspended boolean not null,
    auth_version numeric(20) not null
  );
`;

const feed = `
  -- One row, updated last in every transaction that changes what an edge may decide: its lock makes versions commit in order.
  create table feed (
    singleton boolean primary key default true check (singleton),
    version bigint not null
  );
  insert into feed (version) values (1);

  -- What changed at each version, kept for edges that come back after a short absence.
  create table changes (
    version bigint primary key,
    -- key_changed, key_removed, secret_removed, tenant_changed, owner_changed
    kind text not null,
    tenant_id uuid not null,
    -- The key or user; the organization again when the change is its own.
    subject_id uuid not null,
    -- Digests which stopped being valid: [{"pepper": 1, "digest": "<hex>"}].
    removed_digests jsonb not null default '[]',
    changed_at timestamptz not null default clock_timestamp()
  );
  create index changes_by_age on changes (changed_at);

  -- Edges with a lease. A row is a promise to wait for that edge: whoever finds the lease lapsed deletes it.
  create table watchers (
    edge_id uuid primary key,
    acknowledged_version bigint not null,
    lease_until timestamptz not null
  );
`;

const batches = `
  -- Batches of uses which were counted, kept long enough that a repeat counts nothing twice.
  create table use_batches (
    batch_id uuid primary key,
    recorded_at timestamptz not null default clock_timestamp()
  );
  create index use_batches_by_age on use_batches (recorded_at);
`;

const auditOutbox = `
  -- Rows leave it when Auth has chained them.
  create table audit_outbox (
    id uuid primary key,
    -- modelgateway.auth.v1.AuditRecord in protobuf's binary form.
    record bytea not null
  );
`;
