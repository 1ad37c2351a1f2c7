import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { currentPlanSchema, planJson } from './billing-json.ts';

/** The organization's plan, for any of its users (service.md, Management endpoints). */
export const currentPlanRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_current' } } as const;

  app.get(
    '/api/v1/plan/current',
    { config, schema: { summary: 'Get the plan', response: { 200: currentPlanSchema } } },
    async (request) => {
      const { plan, fundsExhausted } = await billing.getCurrentPlan({}, asCaller(request));
      return { ...planJson(plan!), funds_exhausted: fundsExhausted };
    },
  );
};
