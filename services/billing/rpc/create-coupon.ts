import { createHash, randomBytes } from 'node:crypto';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import {
  type CreateCouponRequest,
  CreateCouponRequestSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { isUniqueViolation } from '#shared/db/errors.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CouponEntity } from '../db/entities.ts';
import { couponMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { canonicalCode, codeDigest, codePreview, couponCode } from '../domain/coupon-code.ts';

/** Only this answer contains the code itself; later only its preview can be shown. */
export const createCoupon =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'createCoupon'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const { amountNanoUsd, creditLifetimeDays } = request;
    const redeemUntilMs = request.redeemUntil === undefined ? null : timestampMs(request.redeemUntil);
    try {
      const kept = await sqlTransaction(database, async (sql) => {
        const nowMs = await databaseNow(sql);
        const call = { caller, key: request.idempotencyKey, request, requestSchema: CreateCouponRequestSchema, nowMs };
        return onceNamed(sql, call, async () => {
          const id = uuidv7();
          const salt = randomBytes(32).toString('hex');
          const code = codeOf(request, salt);
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
          await recordAuditEvent(sql, {
            caller,
            occurredAtMs: nowMs,
            tenantId: '',
            type: 'coupon_created',
            target: { type: 'coupon', id },
            after: {
              code: codePreview(code),
              amount_usd: usdJson(amountNanoUsd),
              redemptions_max: request.redemptionsMax || 1,
              redeem_until: redeemUntilMs === null ? null : new Date(redeemUntilMs).toISOString(),
              credit_lifetime_days: creditLifetimeDays,
            },
            asOperator: true,
          });
          return `${id} ${salt}`;
        });
      });
      const [id, salt] = kept.split(' ');
      const coupon = await database.em().findOneOrFail(CouponEntity, { id: id! });
      return { coupon: couponMessage(coupon, codeOf(request, salt!)) };
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw gatewayError(ErrorReason.CONFLICT, 'A coupon with this code already exists.', { param: 'code' });
    }
  };

/**
 * The requested code, or a random one. A repeat must answer the same code, which is not stored: it is derived from a random salt, which is
 * stored, and the Idempotency-Key, which is not.
 */
const codeOf = ({ code, idempotencyKey }: Pick<CreateCouponRequest, 'code' | 'idempotencyKey'>, salt: string): string =>
  canonicalCode(code || couponCode(createHash('sha256').update(salt).update(idempotencyKey).digest()));
