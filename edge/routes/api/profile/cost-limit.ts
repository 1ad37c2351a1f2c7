import type { Routes } from '../../../app.ts';
import { budgetRoutes } from '../billing/budget-routes.ts';

/** The caller's personal daily limit over all of their keys and sessions (service.md, Management endpoints). */
export const costLimitRoutes: Routes = (app, { billing }) =>
  budgetRoutes(app, {
    path: '/api/v1/profile/cost-limit',
    name: 'personal daily limit',
    description: 'How much the user may spend in a UTC day, over all keys and sessions.',
    descriptionOfSet: '0 blocks all spend. What was already spent counts.',
    changedBy: { surface: 'api', scope: 'budgets:update_own' },
    get: (options) => billing.getCostLimit({}, options),
    set: (limitNanoUsd, options) => billing.setCostLimit({ limitNanoUsd }, options),
    remove: (options) => billing.deleteCostLimit({}, options),
  });
