import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noBody } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { budgetJson, budgetSchema } from './billing-json.ts';

/** The organization's monthly pay-as-you-go cap: any user reads it, admins and owners change it (service.md, Management endpoints). */
export const paygSpendCapRoutes: Routes = (app, { billing }) => {
  const path = '/api/v1/billing/payg-spend-cap';
  const update = { access: { surface: 'api', scope: 'budgets:update_own', role: 'admin' } } as const;

  app.get(
    path,
    {
      config: { access: { surface: 'api', scope: 'budgets:read_own' } },
      schema: {
        summary: 'Get the pay-as-you-go cap',
        description: 'How much the organization may spend in a UTC month beyond commitment and credit.',
        response: { 200: budgetSchema },
      },
    },
    async (request) => {
      const { budget } = await billing.getPaygSpendCap({}, asCaller(request));
      return budgetJson(budget!);
    },
  );

  app.put(
    path,
    {
      config: update,
      schema: {
        summary: 'Set the pay-as-you-go cap',
        description: '0 blocks all such spend. What was already spent counts.',
        body: onlyFields({ limit_usd: amountSchema }),
        response: { 200: budgetSchema },
      },
    },
    async (request) => {
      const { budget } = await billing.setPaygSpendCap(
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
        summary: 'Remove the pay-as-you-go cap',
        response: { 204: noBody('The limit is removed.') },
      },
    },
    async (request, reply) => {
      await billing.deletePaygSpendCap({}, asCaller(request));
      return reply.code(204).send();
    },
  );
};
