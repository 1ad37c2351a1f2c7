import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import type { Routes } from '../../routes.ts';
import { budgetJson } from '../billing/billing-json.ts';

/** The caller's personal daily limit over all of their keys and sessions (service.md, Management endpoints). */
export const costLimitRoutes: Routes = (app, { billing }) => {
  const path = '/api/v1/profile/cost-limit';
  const update = { access: { surface: 'api', scope: 'budgets:update_own' } } as const;

  app.get(path, { config: { access: { surface: 'api', scope: 'budgets:read_own' } } }, async (request) => {
    const { budget } = await billing.getCostLimit({}, asCaller(request));
    return budgetJson(budget!);
  });

  app.put(
    path,
    {
      config: update,
      schema: { body: Type.Object({ limit_usd: amountSchema }, { additionalProperties: false }) },
    },
    async (request) => {
      const { budget } = await billing.setCostLimit(
        { limitNanoUsd: readAmount(request.body.limit_usd, 'limit_usd', 'from 0') },
        asCaller(request),
      );
      return budgetJson(budget!);
    },
  );

  app.delete(path, { config: update }, async (request, reply) => {
    await billing.deleteCostLimit({}, asCaller(request));
    return reply.code(204).send();
  });
};
