import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { planJson, planSchema } from './billing-json.ts';

/** The organization's plan, for any of its users (service.md, Management endpoints). */
export const currentPlanRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_current' } } as const;

  app.get(
    '/api/v1/plan/current',
    { config, schema: { summary: 'Get the plan', response: { 200: planSchema } } },
    async (request) => {
      const { plan } = await billing.getCurrentPlan({}, asCaller(request));
      return planJson(plan!);
    },
  );
};
