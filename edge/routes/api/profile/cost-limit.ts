import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noBody } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { budgetJson, budgetSchema } from '../billing/billing-json.ts';

/** The caller's personal daily limit over all of their keys and sessions (service.md, Management endpoints). */
export const costLimitRoutes: Routes = (app, { billing }) => {
  const path = '/api/v1/profile/cost-limit';
  const update = { access: { surface: 'api', scope: 'budgets:update_own' } } as const;

  app.get(
    path,
    {
      config: { access: { surface: 'api', scope: 'budgets:read_own' } },
      schema: {
        summary: 'Get the personal daily limit',
        description: 'How much the user may spend in a UTC day, over all keys and sessions.',
        response: { 200: budgetSchema },
      },
    },
    async (request) => {
      const { budget } = await billing.getCostLimit({}, asCaller(request));
      return budgetJson(budget!);
    },
  );

  app.put(
    path,
    {
      config: update,
      schema: {
        summary: 'Set the personal daily limit',
        description: '0 blocks all spend. What was already spent counts.',
        body: onlyFields({ limit_usd: amountSchema }),
        response: { 200: budgetSchema },
      },
    },
    async (request) => {
      const { budget } = await billing.setCostLimit(
        { limitNanoUsd: readAmount(request.body.limit_usd, 'limit_usd', 'from 0') },
        asCaller(request),
      );
      return budgetJson(budget!);
    },
  );

  app.delete(
    path,
    {
      config: update,
      schema: {
        summary: 'Remove the personal daily limit',
        response: { 204: noBody('The limit is removed.') },
      },
    },
    async (request, reply) => {
      await billing.deleteCostLimit({}, asCaller(request));
      return reply.code(204).send();
    },
  );
};
