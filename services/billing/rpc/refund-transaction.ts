import { RefundTransactionRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { idempotencyKeyReused, onceNamed } from '#shared/idempotency.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { TransactionEntity } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { accountNumbers } from '../domain/ledger.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { findRequest, giveCredit } from '../ledger/credit.ts';

/**
 * Gives a charge back as credit that does not expire: what it was drawn on may have expired or been invoiced since, and posted entries are
 * never edited.
 */
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
        if (amountNanoUsd > left || amountNanoUsd <= 0n) {
          throw gatewayError(ErrorReason.CONFLICT, 'The amount is more than is left of the charge.');
        }
        const { posted } = await giveCredit(
          sql,
          account,
          {
            source: LotSource.ADJUSTMENT,
            type: TransactionType.REFUND,
            from: 'revenue',
            amountNanoUsd,
            expiresAtMs: null,
            description,
            requestId,
            reversesId,
          },
          nowMs,
        );
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'charge_refunded',
          target: { type: 'transaction', id: reversesId },
          after: { amount_usd: usdJson(amountNanoUsd), description },
          asOperator: true,
        });
        return posted.id;
      });
    });
    return {
      transaction: transactionMessage(await database.em().findOneOrFail(TransactionEntity, { tenantId, id }), ''),
    };
  };

/**
 * What is left of a charge after earlier refunds. What a voided invoice asked for was given up with it, and nobody paid it. The
 * organization is locked.
 */
export async function refundable(sql: Sql, tenantId: string, transactionId: string): Promise<bigint> {
  const { rows } = await sql.query<{ charged: bigint; refunded: bigint }>({
    text: `
      select -amount_nano_usd - (
          select coalesce(sum(entries.amount_nano_usd), 0)::bigint from entries join invoices using (tenant_id)
          where tenant_id = $1 and transaction_id = $2 and account = ${accountNumbers.paygAccrual}
            and month = transactions.invoice_month and status = ${InvoiceStatus.VOIDED}) as charged,
        (select coalesce(sum(amount_nano_usd), 0)::bigint from transactions
          where tenant_id = $1 and reverses_id = $2 and type = ${TransactionType.REFUND}) as refunded
      from transactions where tenant_id = $1 and id = $2 and type = ${TransactionType.USAGE}`,
    values: [tenantId, transactionId],
  });
  if (rows[0] === undefined) throw notFound('charge');
  return rows[0].charged - rows[0].refunded;
}
