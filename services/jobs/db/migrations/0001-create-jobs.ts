import { Migration } from '@mikro-orm/migrations';

/** Jobs, which are their own queue; their requests and results in pieces; and whose turn it is. */
export class CreateJobs extends Migration {
  override up(): void {
    this.addSql(jobs);
    this.addSql(bodies);
    this.addSql(turns);
  }
}

const jobs = `
  create table jobs (
    tenant_id uuid not null,
    -- The public id is \`job_\` and this without dashes.
    id uuid not null,
    user_id uuid not null,
    -- Whose limits count: the API key, or the user of a session.
    subject_id uuid not null,
    -- modelgateway.common.v1.Caller in protobuf's binary form: on whose behalf the job runs.
    caller bytea not null,
    -- modelgateway.models.v1.Operation.
    operation smallint not null,
    endpoint text not null,
    model text not null,
    content_type text not null,
    body_bytes integer not null,
    metadata jsonb not null,
    idempotency_key text,
    request_hash bytea,
    -- modelgateway.jobs.v1.JobStatus: 1 queued, 2 in progress, 3 completed, 4 failed, 5 cancelled.
    status smallint not null check (status between 1 and 5),
    created_at timestamptz not null,
    -- Not taken before; later than created_at behind a failed attempt.
    available_at timestamptz not null,
    -- Fails when it has not ended by then.
    deadline_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz,
    -- Removed with its result then.
    expires_at timestamptz,
    -- How often a worker took it.
    attempts integer not null default 0,
    worker_id uuid,
    -- Rises each time a worker takes the job: whoever has an older number may not end it.
    fence bigint not null default 0,
    lease_expires_at timestamptz,
    cost_max_nano_usd bigint not null,
    cost_min_nano_usd bigint not null,
    -- modelgateway.models.v1.JobHold in binary form: the room which Billing holds for it.
    hold bytea not null,
    -- When that room lapses unless it is renewed; null when none is held.
    hold_expires_at timestamptz,
    -- modelgateway.common.v1.ErrorDetail and modelgateway.models.v1.MeteredUsage in binary form.
    error bytea,
    usage bytea,
    result_content_type text,
    primary key (tenant_id, id),
    check ((status = 2) = (lease_expires_at is not null)),
    check ((status >= 3) = (expires_at is not null))
  ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
  create index jobs_queue on jobs (tenant_id, subject_id, model, id) where status = 1;
  create index jobs_running on jobs (lease_expires_at) where status = 2;
  create index jobs_of_user on jobs (tenant_id, user_id, id);
  create index jobs_by_id on jobs (id);
  create index jobs_by_expiry on jobs (expires_at) where expires_at is not null;
  create index jobs_by_hold on jobs (hold_expires_at) where hold_expires_at is not null;
  create unique index jobs_by_idempotency_key on jobs (tenant_id, subject_id, idempotency_key)
    where idempotency_key is not null;
`;

const bodies = `
  create table job_bodies (
    tenant_id uuid not null,
    job_id uuid not null,
    -- 1 the request, until the job's end; 2 the result.
    kind smallint not null check (kind in (1, 2)),
    part integer not null,
    bytes bytea not null,
    primary key (tenant_id, job_id, kind, part),
    foreign key (tenant_id, job_id) references jobs (tenant_id, id) on delete cascade
  );
  -- Sound and images in base64 do not compress; trying costs more than it saves.
  alter table job_bodies alter column bytes set storage external;
`;

const turns = `
  create table served_tenants (
    tenant_id uuid primary key,
    -- When a worker last took a job of this organization: the one that waits the longest is next.
    served_at timestamptz not null
  );
`;
