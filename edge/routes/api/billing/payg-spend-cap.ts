import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import type { Routes } from '../../routes.ts';
import { budgetJson } from './billing-json.ts';

/** The organization's monthly pay-as-you-go cap: any user reads it, admins and owners change it (service.md, Management endpoints). */
export const paygSpendCapRoutes: Routes = (app, { billing }) => {
  const path = '/api/v1/billing/payg-spend-cap';
  const update = { access: { surface: 'api', scope: 'budgets:update_own', role: 'admin' } } as const;

  app.get(path, { config: { access: { surface: 'api', scope: 'budgets:read_own' } } }, async (request) => {
    const { budget } = await billing.getPaygSpendCap({}, asCaller(request));
    return budgetJson(budget!);
  });

  app.put(
    path,
    {
      config: update,
      schema: { body: Type.Object({ limit_usd: amountSchema }, { additionalProperties: false }) },
    },
    async (request) => {
      const { budget } = await billing.setPaygSpendCap(
        { limitNanoUsd: readAmount(request.body.limit_usd, 'limit_usd', 'from 0') },
        asCaller(request),
      );
      return budgetJson(budget!);
    },
  );

  app.delete(path, { config: update }, async (request, reply) => {
    await billing.deletePaygSpendCap({}, asCaller(request));
    return reply.code(204).send();
  });
};
