import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { StatementRunner } from '#shared/db/run.ts';
import type { Caller } from '#shared/rpc/caller.ts';

/** What the audit trail says about a change. */
export type Audited = {
  tenantId: string;
  type: AuditEventType;
  target: { type: string; id: string };
  before?: object;
  after?: object;
  asOperator?: boolean;
};

/** Records a change by Billing in its own transaction. Amounts are spelled as in the public API, by usdJson. */
export const audit = (tx: StatementRunner, caller: Caller, event: Audited, nowMs: number): Promise<void> =>
  recordAuditEvent(tx, { occurredAtMs: nowMs, caller, ...event });
