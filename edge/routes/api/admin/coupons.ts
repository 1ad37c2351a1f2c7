import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson, parseTimeIfGiven, timeSchema } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { noStore } from '../../../http/no-store.ts';
import { nullable } from '../../../http/nullable.ts';
import { couponJson, couponSchema } from '../billing/billing-json.ts';
import { idInPath } from '../id-in-path.ts';

/** Coupons, for operators. A coupon's code is answered when it is made, and never again. */
export const adminCouponRoutes: Routes = (app, { billing }) => {
  app.get(
    '/api/v1/admin/coupons',
    {
      config: operatorOnly,
      schema: {
        summary: 'List coupons',
        description: 'Newest first.',
        response: { 200: pageOf(couponSchema) },
        querystring: Type.Object(pageQuerySchema),
      },
    },
    async (request) => {
      const { page, limit } = request.query;
      const answer = await billing.listCoupons({ page: { page, limit } }, asCaller(request));
      return { data: answer.coupons.map(couponJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/coupons',
    {
      config: operatorOnly,
      schema: {
        summary: 'Create a coupon',
        description: 'Only this response shows the whole code. A code already in use is a conflict.',
        idempotent: true,
        response: { 201: couponSchema },
        body: onlyFields({
          code: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9-]{4,64}$', description: 'Random by default.' })),
          amount_usd: amountSchema,
          redemptions_max: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: 1_000_000,
              description: 'How many organizations may redeem it; 1 by default.',
            }),
          ),
          redeem_until: nullable(timeSchema),
          credit_lifetime_days: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: 3650,
              description: 'Counted from the redemption; 0, the default, means that the credit never expires.',
            }),
          ),
        }),
      },
    },
    async (request, reply) => {
      const { body } = request;
      const { coupon } = await billing.createCoupon(
        {
          code: body.code,
          amountNanoUsd: readAmount(body.amount_usd, 'amount_usd', 'above 0'),
          redemptionsMax: body.redemptions_max ?? 1,
          redeemUntil: parseTimeIfGiven(body.redeem_until, 'redeem_until'),
          creditLifetimeDays: body.credit_lifetime_days,
          idempotencyKey: idempotencyKey(request),
        },
        asCaller(request),
      );
      return noStore(reply).code(201).send(couponJson(coupon!));
    },
  );

  app.post(
    '/api/v1/admin/coupons/:coupon_id/disable',
    {
      config: operatorOnly,
      schema: {
        summary: 'Disable a coupon',
        description: 'Stops further redemptions; credit already given stays.',
        response: { 200: couponSchema },
        params: Type.Object({ coupon_id: idSchema }),
      },
    },
    async (request) => {
      const { coupon } = await billing.disableCoupon(
        { couponId: idInPath(request.params.coupon_id, 'coupon') },
        asCaller(request),
      );
      return couponJson(coupon!);
    },
  );
};
