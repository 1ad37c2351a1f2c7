/** The table of a service's audit outbox, for its first migration. Rows leave it when Auth has chained them. */
export const auditOutboxTable = `
  create table audit_outbox (
    id uuid primary key,
    -- modelgateway.auth.v1.AuditRecord in protobuf's binary form.
    record bytea not null
  );
`;

/** For a later migration: what Auth refuses for good stays, aside of the others. */
export const auditOutboxAside = `
  alter table audit_outbox add column refused_at timestamptz;
`;
