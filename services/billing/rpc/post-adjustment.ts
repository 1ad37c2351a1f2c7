import { PostAdjustmentRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { TransactionEntity } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { type Account, lockAccount } from '../ledger/accounts.ts';
import { findRequest, giveCredit } from '../ledger/credit.ts';
import { takeCredit } from '../ledger/take-credit.ts';

export const postAdjustment =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'postAdjustment'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const { requestId, amountNanoUsd, allowNegativeBalance } = request;
    const tenantId = request.tenantId.toLowerCase();
    const description = shownName(request.description, 'description');
    const id = await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      const call = { caller, key: requestId, request, requestSchema: PostAdjustmentRequestSchema, nowMs };
      return onceNamed(sql, call, async () => {
        const account = await lockAccount(sql, tenantId);
        const adjustment = { amountNanoUsd, description, requestId };
        const earlier = await findRequest(sql, tenantId, { ...adjustment, type: TransactionType.ADJUSTMENT });
        if (earlier !== null) return earlier.transactionId;
        const id =
          amountNanoUsd > 0n
            ? await give(sql, account, adjustment, nowMs)
            : await takeCredit(
                sql,
                account,
                { ...adjustment, amountNanoUsd: -amountNanoUsd, allowNegativeBalance },
                nowMs,
              );
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'adjustment_posted',
          target: { type: 'transaction', id },
          after: { amount_usd: usdJson(amountNanoUsd), description, allow_negative_balance: allowNegativeBalance },
          asOperator: true,
        });
        return id;
      });
    });
    return {
      transaction: transactionMessage(await database.em().findOneOrFail(TransactionEntity, { tenantId, id }), ''),
    };
  };

type Adjustment = { amountNanoUsd: bigint; description: string; requestId: string };

async function give(sql: Sql, account: Account, adjustment: Adjustment, nowMs: number): Promise<string> {
  const credit = { ...adjustment, source: LotSource.ADJUSTMENT, type: TransactionType.ADJUSTMENT, expiresAtMs: null };
  return (await giveCredit(sql, account, credit, nowMs)).transactionId;
}
