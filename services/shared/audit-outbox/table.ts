/** The table of a service's audit outbox, for its first migration. Rows leave it when Auth has chained them. */
export const auditOutboxTable = `
  create table audit_outbox (
    id uuid primary key,
    -- modelgateway.auth.v1.AuditRecord in protobuf's binary form.
    record bytea not null
  );
`;
