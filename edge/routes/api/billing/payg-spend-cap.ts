import type { Routes } from '../../../app.ts';
import { budgetRoutes } from './budget-routes.ts';

/** The organization's monthly pay-as-you-go cap: any user reads it, admins and owners change it (service.md, Management endpoints). */
export const paygSpendCapRoutes: Routes = (app, { billing }) =>
  budgetRoutes(app, {
    path: '/api/v1/billing/payg-spend-cap',
    name: 'pay-as-you-go cap',
    description: 'How much the organization may spend in a UTC month beyond commitment and credit.',
    descriptionOfSet: '0 blocks all such spend. What was already spent counts.',
    changedBy: { surface: 'api', scope: 'budgets:update_own', role: 'admin' },
    get: (options) => billing.getPaygSpendCap({}, options),
    set: (limitNanoUsd, options) => billing.setPaygSpendCap({ limitNanoUsd }, options),
    remove: (options) => billing.deletePaygSpendCap({}, options),
  });
