import { Migration } from '@mikro-orm/migrations';

/** Models, deployments, prices, grants and retirements, the catalog's version, and the audit outbox. */
export class CreateCatalog extends Migration {
  override up(): void {
    this.addSql(catalog);
    this.addSql(version);
    this.addSql(auditOutbox);
  }
}

const catalog = `
  create table models (
    id uuid primary key,
    name text not null unique check (char_length(name) between 1 and 255),
    display_name text not null,
    owned_by text not null,
    -- modelgateway.models.v1.Operation
    operations smallint[] not null check (cardinality(operations) > 0),
    context_window integer not null default 0,
    max_output_tokens integer not null default 0,
    -- modelgateway.models.v1.Visibility
    visibility smallint not null check (visibility between 1 and 2),
    created_at timestamptz not null,
    -- The retirement (service.md, Model retirement fields). deprecated_at never moves once it is set, but for a withdrawal.
    deprecated_at timestamptz,
    sunset_at timestamptz,
    replacement_model_name text,
    retirement_note text,
    check (sunset_at is null or sunset_at >= deprecated_at),
    -- Every retirement carries a successor or a note, exactly one.
    check ((deprecated_at is null and sunset_at is null and replacement_model_name is null and retirement_note is null)
      or (deprecated_at is not null and (replacement_model_name is null) <> (retirement_note is null)))
  );

  create table deployments (
    id uuid primary key,
    model_id uuid not null references models (id) on delete cascade,
    base_url text not null,
    upstream_model text not null,
    -- modelgateway.models.v1.DeploymentSettings in protobuf's JSON form.
    settings jsonb not null,
    -- modelgateway.models.v1.DeploymentStatus
    status smallint not null check (status between 1 and 5),
    status_changed_at timestamptz not null,
    status_reason text not null default '',
    created_at timestamptz not null,
    unique (model_id, base_url, upstream_model)
  );

  -- Versions are never changed: usage events name the one by which they were charged.
  create table prices (
    id uuid primary key,
    model_id uuid not null references models (id) on delete cascade,
    effective_from timestamptz not null,
    created_at timestamptz not null,
    -- modelgateway.models.v1.PriceRates in protobuf's JSON form.
    rates jsonb not null,
    unique (model_id, effective_from)
  );

  create table grants (
    model_id uuid not null references models (id) on delete cascade,
    tenant_id uuid not null,
    granted_at timestamptz not null,
    primary key (model_id, tenant_id)
  );
`;

const version = `
  create table catalog_version (
    singleton boolean primary key default true check (singleton),
    version bigint not null
  );
  insert into catalog_version (version) values (1);
`;

const auditOutbox = `
  -- Rows leave it when Auth has chained them.
  create table audit_outbox (
    id uuid primary key,
    -- modelgateway.auth.v1.AuditRecord in protobuf's binary form.
    record bytea not null
  );
`;
