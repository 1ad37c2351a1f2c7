import { timestampMs } from '@bufbuild/protobuf/wkt';
import { GrantCreditRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { idempotencyKeyReused, onceNamed } from '#shared/idempotency.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { LotEntity } from '../db/entities.ts';
import { lotMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { findRequest, giveCredit, typeOfCredit } from '../ledger/credit.ts';
import { lockAndFindPayment, namedPayment, paymentBooked, paymentText, savePayment } from '../ledger/payments.ts';

export const grantCredit =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'grantCredit'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const tenantId = request.tenantId.toLowerCase();
    const { source, amountNanoUsd, requestId } = request;
    const asked = shownName(request.description, 'description');
    const payment = namedPayment(request.paymentId);
    if (payment !== null && source !== LotSource.PURCHASE) {
      throw invalidRequest(
        'payment_id',
        'A payment_id is for a purchase: nobody pays for a promotion.',
        'invalid_value',
      );
    }
    const description = payment === null ? asked : asked || paymentText(payment.paymentId);
    const expiresAtMs = request.expiresAt === undefined ? null : timestampMs(request.expiresAt);
    const lotId = await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      const call = { caller, key: requestId, request, requestSchema: GrantCreditRequestSchema, nowMs };
      return onceNamed(sql, call, async () => {
        const booked = payment && (await lockAndFindPayment(sql, payment));
        const account = await lockAccount(sql, tenantId);
        const movement = { requestId, type: typeOfCredit(source), amountNanoUsd, description };
        const earlier = await findRequest(sql, tenantId, movement);
        if (earlier !== null) {
          const isOther =
            (payment !== null && booked?.transactionId !== earlier.transactionId) ||
            (await expiryOf(sql, tenantId, earlier.itemId!)) !== expiresAtMs;
          if (isOther) throw idempotencyKeyReused();
          return earlier.itemId!;
        }
        if (payment !== null && booked !== null) throw paymentBooked(payment);
        if (expiresAtMs !== null && expiresAtMs <= nowMs) {
          throw invalidRequest('expires_at', 'expires_at must be in the future.', 'invalid_value');
        }
        const { transactionId, lotId } = await giveCredit(
          sql,
          account,
          { source, amountNanoUsd, expiresAtMs, description, requestId },
          nowMs,
        );
        if (payment !== null) {
          await savePayment(sql, payment, { tenantId, amountNanoUsd, transactionId, lotId }, nowMs);
        }
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'credit_granted',
          target: { type: 'lot', id: lotId },
          after: {
            source: source === LotSource.PURCHASE ? 'purchase' : 'promotion',
            amount_usd: usdJson(amountNanoUsd),
            expires_at: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
            description,
            ...(payment !== null && { payment_id: payment.paymentId }),
          },
          asOperator: true,
        });
        return lotId;
      });
    });
    return { lot: lotMessage(await database.em().findOneOrFail(LotEntity, { tenantId, id: lotId })) };
  };

/** When a lot expires, in milliseconds since the Unix epoch; null: never. */
async function expiryOf(sql: Sql, tenantId: string, lotId: string): Promise<number | null> {
  const { rows } = await sql.query<{ expires_at: Date | null }>({
    text: 'select expires_at from lots where tenant_id = $1 and id = $2',
    values: [tenantId, lotId],
  });
  return rows[0]!.expires_at?.getTime() ?? null;
}
