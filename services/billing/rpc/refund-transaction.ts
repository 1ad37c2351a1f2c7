import { RefundTransactionRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { idempotencyKeyReused, onceNamed } from '#shared/idempotency.ts';
import { usdText } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { TransactionEntity } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { findRequest } from '../ledger/credit.ts';
import { refundable, refundCharge } from '../ledger/refund.ts';

/** Gives a charge back, or a part of it. */
export const refundTransaction =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'refundTransaction'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const { requestId } = request;
    const tenantId = request.tenantId.toLowerCase();
    const reversesId = request.transactionId.toLowerCase();
    const description = shownName(request.description, 'description');
    const id = await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      const call = { caller, key: requestId, request, requestSchema: RefundTransactionRequestSchema, nowMs };
      return onceNamed(sql, call, async () => {
        const account = await lockAccount(sql, tenantId);
        const movement = {
          type: TransactionType.REFUND,
          amountNanoUsd: request.amountNanoUsd,
          description,
          reversesId,
        };
        const earlier = await findRequest(sql, tenantId, { requestId, ...movement });
        const left = await refundable(sql, tenantId, reversesId);
        if (earlier !== null) {
          // A refund of all that was left has left nothing.
          if (request.amountNanoUsd === 0n && left > 0n) throw idempotencyKeyReused();
          return earlier.transactionId;
        }
        const amountNanoUsd = request.amountNanoUsd === 0n ? left : request.amountNanoUsd;
        if (left <= 0n) throw gatewayError(ErrorReason.CONFLICT, 'Nothing is left of the charge to refund.');
        if (amountNanoUsd > left) {
          const text = `Only ${usdText(left)} USD of the charge are left to refund.`;
          throw gatewayError(ErrorReason.CONFLICT, text, { param: 'amount_usd' });
        }
        const refund = { caller, asOperator: true, reversesId, amountNanoUsd, description, requestId };
        return refundCharge(sql, account, refund, nowMs);
      });
    });
    return {
      transaction: transactionMessage(await database.em().findOneOrFail(TransactionEntity, { tenantId, id }), ''),
    };
  };
