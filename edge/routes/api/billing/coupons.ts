import { Type } from 'typebox';
import { usdJson } from '#shared/money.ts';
import { Role } from '#shared/rpc/caller.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { usdSchema } from '../../../http/json.ts';
import { lotJson, lotSchema } from './billing-json.ts';

const redeemedSchema = Type.Object({
  lot: lotSchema,
  balance_usd: Type.Optional({
    ...usdSchema,
    description: "The wallet's balance afterwards; only for admins and owners.",
  }),
});

/** POST /api/v1/billing/coupons/redeem: sessions only (service.md, Management endpoints). */
export const couponRoutes: Routes = (app, { billing }) => {
  app.post(
    '/api/v1/billing/coupons/redeem',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Redeem a coupon',
        idempotent: true,
        body: onlyFields({ code: Type.String({ minLength: 1, maxLength: 64 }) }),
        response: { 201: redeemedSchema },
      },
    },
    async (request, reply) => {
      const { lot, balanceNanoUsd } = await billing.redeemCoupon(
        { code: request.body.code, idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send({
        lot: lotJson(lot!),
        // Only callers who may read the wallet are told the organization's balance.
        ...(request.principal!.role >= Role.ADMIN && { balance_usd: usdJson(balanceNanoUsd) }),
      });
    },
  );
};
