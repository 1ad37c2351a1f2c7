import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CommitmentEntity } from '../db/entities.ts';
import { commitmentMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';

/** What is left of it is written off as at the end of any other. */
export const endCommitment =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'endCommitment'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const [tenantId, id] = [request.tenantId.toLowerCase(), request.commitmentId.toLowerCase()];
    await sqlTransaction(database, async (sql) => {
      await lockAccount(sql, tenantId);
      const nowMs = await databaseNow(sql);
      const { rows } = await sql.query<{ period_start: Date; period_end: Date }>({
        text: 'select period_start, period_end from commitments where tenant_id = $1 and id = $2',
        values: [tenantId, id],
      });
      const [period] = rows;
      if (period === undefined) throw notFound('commitment');
      if (period.period_end.getTime() <= nowMs) return;
      const end = new Date(nowMs);
      const start = period.period_start < end ? period.period_start : end;
      await sql.query({
        text: 'update commitments set period_start = $3, period_end = $4 where tenant_id = $1 and id = $2',
        values: [tenantId, id, start, end],
      });
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'commitment_ended',
        target: { type: 'commitment', id },
        before: { period_start: period.period_start.toISOString(), period_end: period.period_end.toISOString() },
        after: { period_start: start.toISOString(), period_end: end.toISOString() },
        asOperator: true,
      });
    });
    return { commitment: commitmentMessage(await database.em().findOneOrFail(CommitmentEntity, { tenantId, id })) };
  };
