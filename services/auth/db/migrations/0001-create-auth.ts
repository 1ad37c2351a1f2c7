import { Migration } from '@mikro-orm/migrations';

/** Organizations, people, sessions, invitations, the audit chain, the mail outbox and the edges' feed. */
export class CreateAuth extends Migration {
  override up(): void {
    this.addSql(organizationsAndUsers);
    this.addSql(sessions);
    this.addSql(oneTimeTokens);
    this.addSql(idempotencyKeys);
    this.addSql(signingKeys);
    this.addSql(audit);
    this.addSql(mail);
    this.addSql(feed);
    this.addSql(throttles);
  }
}

const organizationsAndUsers = `
  -- References are checked at the commit, so that the order in which a unit of work writes its rows is of no consequence.
  create table organizations (
    id uuid primary key,
    name text not null,
    created_at timestamptz not null,
    suspended_at timestamptz,
    suspension_reason text not null default ''
  );
  create index organizations_suspended on organizations (id) where suspended_at is not null;

  create table users (
    id uuid primary key,
    tenant_id uuid not null references organizations (id) deferrable initially deferred,
    email text not null constraint users_email_unique unique check (email = lower(email)),
    first_name text not null,
    last_name text not null,
    phone text not null default '',
    role smallint not null check (role between 1 and 3),
    is_active boolean not null default true,
    email_verified boolean not null default false,
    onboarding_completed boolean not null default false,
    operator boolean not null default false,
    password_hash text not null,
    -- Access tokens issued before this second are refused.
    tokens_not_before timestamptz not null,
    created_at timestamptz not null,
    last_login_at timestamptz
  );
  create index users_of_tenant on users (tenant_id, id);
  create index users_operators on users (id) where operator;
`;

const sessions = `
  -- One row per login. A refresh changes the row, so that the row alone says which refresh token is the current one.
  create table sessions (
    tenant_id uuid not null,
    id uuid not null,
    user_id uuid not null references users (id) deferrable initially deferred,
    ip text not null,
    user_agent text not null,
    created_at timestamptz not null,
    -- The pair which was issued last; enough to sign it again, not enough to forge it.
    issued_at timestamptz not null,
    kid text not null,
    access_token_id uuid not null,
    refresh_token_id uuid not null,
    refresh_token_hash bytea not null,
    previous_refresh_token_hash bytea,
    rotated_at timestamptz,
    expires_at timestamptz not null,
    ended_at timestamptz,
    primary key (tenant_id, id)
  );
  create index sessions_of_user on sessions (user_id, ip);
  create index sessions_by_expiry on sessions (expires_at);
`;

const oneTimeTokens = `
  create table invitations (
    id uuid primary key,
    -- Null: accepting makes a new organization.
    tenant_id uuid references organizations (id) deferrable initially deferred,
    email text not null,
    role smallint not null check (role between 1 and 3),
    token_hash bytea not null unique,
    invited_by_user_id uuid not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    accepted_at timestamptz,
    withdrawn_at timestamptz
  );
  create index invitations_of_tenant on invitations (tenant_id, id);
  create index invitations_by_email on invitations (email) where accepted_at is null and withdrawn_at is null;

  create table password_resets (
    token_hash bytea primary key,
    user_id uuid not null references users (id) deferrable initially deferred,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
  );
  create index password_resets_of_user on password_resets (user_id) where used_at is null;
`;

const signingKeys = `
  create table signing_keys (
    kid text primary key,
    public_key bytea not null,
    -- Sealed under SERVICE_SECRET; null for the key of JWT_PRIVATE_KEY, which is not kept here.
    sealed_private_key bytea,
    status smallint not null check (status between 1 and 3),
    activated_at timestamptz not null,
    expires_at timestamptz
  );
  create unique index signing_keys_one_active on signing_keys (status) where status = 2;
`;

const audit = `
  -- The zero UUID is the platform's own chain. Append-only: the services' role may neither change nor remove a row.
  create table audit_events (
    tenant_id uuid not null,
    sequence bigint not null,
    id uuid not null,
    type text not null,
    occurred_at timestamptz(3) not null,
    actor_type smallint not null,
    actor_id text not null,
    actor_ip text not null,
    target_type text not null,
    target_id text not null,
    -- Text, not jsonb: the hash is over these very characters.
    before_json text not null,
    after_json text not null,
    request_id text not null,
    previous_hash bytea not null,
    hash bytea not null,
    primary key (tenant_id, sequence)
  );
  create unique index audit_events_once on audit_events (tenant_id, id);
  create index audit_events_newest on audit_events (id);
  revoke update, delete, truncate on audit_events from modelgateway_app;

  create table audit_heads (
    tenant_id uuid primary key,
    sequence bigint not null,
    hash bytea not null
  );
  revoke delete, truncate on audit_heads from modelgateway_app;
`;

const mail = `
  create table mails (
    id uuid primary key,
    dedupe_key text not null constraint mails_once unique,
    message_id text not null,
    kind text not null,
    to_email text not null,
    to_user_id uuid,
    subject text not null,
    -- Sealed under SERVICE_SECRET: mails carry one-time tokens. Emptied once the mail is sent or dropped.
    sealed_body bytea,
    -- Whether the body holds a one-time token, which no list shows.
    secret boolean not null default false,
    status smallint not null check (status between 1 and 4),
    attempts integer not null default 0,
    last_error text not null default '',
    created_at timestamptz not null,
    send_after timestamptz,
    expires_at timestamptz,
    sent_at timestamptz,
    next_attempt_at timestamptz
  );
  create index mails_due on mails (next_attempt_at) where status = 1;
`;

const feed = `
  create table feed (
    singleton boolean primary key default true check (singleton),
    version bigint not null
  );
  insert into feed (version) values (1);

  create table changes (
    version bigint primary key,
    kind text not null,
    subject_id uuid,
    changed_at timestamptz not null default clock_timestamp(),
    -- From then on no token is alive that the change concerns.
    forget_after timestamptz not null
  );
  create index changes_by_age on changes (changed_at);

  -- Which edges decide from their snapshot, and until when. Lost in a crash of Postgres, after which edges watch again.
  create unlogged table edge_leases (
    edge_id uuid primary key,
    acknowledged_version bigint not null,
    expires_at timestamptz not null
  );

  -- What Keys has not been told yet about users and organizations.
  create table key_refreshes (
    version bigint primary key,
    kind text not null,
    subject_id uuid not null
  );
`;

const throttles = `
  -- Failed logins by account or address, under a keyed hash; not worth a journal.
  create unlogged table login_throttles (
    subject bytea primary key,
    failures integer not null,
    last_failure_at timestamptz not null,
    blocked_until timestamptz not null
  );
  create index login_throttles_by_age on login_throttles (last_failure_at);
`;

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
