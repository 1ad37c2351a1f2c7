import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CouponEntity } from '../db/entities.ts';
import { couponMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const disableCoupon =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'disableCoupon'> =>
  async ({ couponId }, context) => {
    const caller = operatorCaller(context);
    await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      const { rowCount } = await sql.query({
        text: 'update coupons set disabled_at = $2 where id = $1 and disabled_at is null',
        values: [couponId, new Date(nowMs)],
      });
      if (rowCount === 0) return;
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId: '',
        type: 'coupon_disabled',
        target: { type: 'coupon', id: couponId },
        asOperator: true,
      });
    });
    const coupon = await database.em().findOne(CouponEntity, { id: couponId });
    if (coupon === null) throw notFound('coupon');
    return { coupon: couponMessage(coupon) };
  };
