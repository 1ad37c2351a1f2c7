import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { postingDefaults, transfer } from '../domain/ledger.ts';
import { freeHolds } from '../leasing/free-holds.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { refundable, refundCharge } from '../ledger/refund.ts';

/**
 * An event is charged once, as it has one transaction. One that was not charged gets a transaction that moves nothing and that no list shows,
 * so that it never is: it may still be in the journal of a process that died.
 */
export const voidCharge =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'voidCharge'> =>
  async ({ description, ...request }, context) => {
    const caller = callerOf(context);
    requireService(caller);
    const tenantId = request.tenantId.toLowerCase();
    const usageEventId = request.usageEventId.toLowerCase();
    const leaseIds = request.leaseIds.map((id) => id.toLowerCase());
    await sqlTransaction(database, async (sql) => {
      const account = await lockAccount(sql, tenantId);
      const nowMs = await databaseNow(sql);
      const { rows } = await sql.query<{ id: string; type: TransactionType }>({
        text: 'select id, type from transactions where tenant_id = $1 and usage_event_id = $2',
        values: [tenantId, usageEventId],
      });
      const [charge] = rows;
      if (charge === undefined) {
        const entries = transfer(1n, 'revenue', 'revenue');
        const type = TransactionType.UNSPECIFIED;
        const posting = { ...postingDefaults, type, amountNanoUsd: 0n, description, usageEventId, entries };
        await post(sql, [{ account, postings: [posting] }], nowMs);
      } else if (charge.type === TransactionType.USAGE) {
        const reversesId = charge.id;
        const amountNanoUsd = await refundable(sql, tenantId, reversesId);
        const refund = { caller, asOperator: false, reversesId, amountNanoUsd, description, requestId: null };
        // Otherwise it was given back before, by an earlier try or by an operator.
        if (amountNanoUsd > 0n) await refundCharge(sql, account, refund, nowMs);
      }
      await freeHolds(sql, tenantId, leaseIds);
    });
    return {};
  };
