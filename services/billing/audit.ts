import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { Sql } from './db/sql.ts';

/** Records a change of Billing's in its own transaction. Amounts go in the public API's spelling, by usdJson. */
export const audit = (
  sql: Sql,
  caller: Caller,
  event: {
    tenantId: string;
    type: string;
    target: { type: string; id: string };
    before?: object;
    after?: object;
    asOperator?: boolean;
  },
  nowMs: number,
): Promise<void> => recordAuditEvent(sql, { id: uuidv7(), occurredAtMs: nowMs, caller, ...event });
