import type { BillingDeps, BillingRpc } from '../deps.ts';
import { changeCostLimit } from './set-cost-limit.ts';

export const deleteCostLimit =
  (deps: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'deleteCostLimit'> =>
  async (_request, context) => {
    await changeCostLimit(deps, context, null);
    return {};
  };
