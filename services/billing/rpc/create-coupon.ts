import { randomBytes } from 'node:crypto';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { isUniqueViolation } from '#shared/db/errors.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { usdJson } from '#shared/money.ts';
import { audit } from '../audit.ts';
import { CouponEntity } from '../db/entities.ts';
import { couponMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { canonicalCode, codeDigest, codePreview, couponCode } from '../domain/coupon-code.ts';
import { operatorCaller } from './caller.ts';

/** The code itself is answered here alone; afterwards only its preview can be shown. */
export const createCoupon =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'createCoupon'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const code = canonicalCode(request.code || couponCode(randomBytes(17)));
    const { amountNanoUsd, creditLifetimeDays } = request;
    const redeemUntilMs = request.redeemUntil === undefined ? null : timestampMs(request.redeemUntil);
    const id = uuidv7();
    try {
      await sqlTransaction(database, async (sql) => {
        const nowMs = await databaseNow(sql);
        if (redeemUntilMs !== null && redeemUntilMs <= nowMs) {
          throw invalidRequest('redeem_until', 'redeem_until must be in the future.', 'invalid_value');
        }
        await sql.query({
          text: `
            insert into coupons (id, code_digest, code_preview, amount_nano_usd, redemptions_max, redeem_until,
              credit_lifetime_days, created_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8)`,
          values: [
            id,
            codeDigest(code),
            codePreview(code),
            amountNanoUsd,
            request.redemptionsMax || 1,
            redeemUntilMs === null ? null : new Date(redeemUntilMs),
            creditLifetimeDays,
            new Date(nowMs),
          ],
        });
        const change = {
          tenantId: '',
          type: 'coupon_created',
          target: { type: 'coupon', id },
          after: { code: codePreview(code), amount_usd: usdJson(amountNanoUsd) },
          asOperator: true,
        };
        await audit(sql, caller, change, nowMs);
      });
    } catch (error) {
      if (isUniqueViolation(error)) throw gatewayError(ErrorReason.CONFLICT, 'There is a coupon with this code.');
      throw error;
    }
    return { coupon: couponMessage(await database.em().findOneOrFail(CouponEntity, { id }), code) };
  };
