import { Type } from 'typebox';
import { usdJson } from '#shared/money.ts';
import { callerContext, Role } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { idempotencyKey, type Routes } from '../../routes.ts';
import { lotJson } from './billing-json.ts';

/** POST /api/v1/billing/coupons/redeem: sessions only (service.md, Management endpoints). */
export const couponRoutes: Routes = (app, { billing }) => {
  app.post(
    '/api/v1/billing/coupons/redeem',
    {
      config: { access: { surface: 'session' } },
      schema: {
        body: Type.Object({ code: Type.String({ minLength: 1, maxLength: 64 }) }, { additionalProperties: false }),
      },
    },
    async (request, reply) => {
      const caller = callerOfRequest(request);
      const { lot, balanceNanoUsd } = await billing.redeemCoupon(
        { code: request.body.code, idempotencyKey: idempotencyKey(request) },
        { contextValues: callerContext(caller) },
      );
      return reply.code(201).send({
        lot: lotJson(lot!),
        // What the organization has is for those alone who may read the wallet.
        ...(caller.role >= Role.ADMIN && { balance_usd: usdJson(balanceNanoUsd) }),
      });
    },
  );
};
