import type { BillingDeps, BillingRpc } from '../deps.ts';
import { memberCaller } from './caller.ts';
import { changeCostLimit } from './set-cost-limit.ts';

export const deleteCostLimit =
  (deps: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'deleteCostLimit'> =>
  async (_request, context) => {
    await changeCostLimit(deps, memberCaller(context), null);
    return {};
  };
