import { paygCapAt } from '../budgets.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { memberCaller } from './caller.ts';

export const getPaygSpendCap =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getPaygSpendCap'> =>
  async (_request, context) => {
    const { tenantId } = memberCaller(context);
    return { budget: await paygCapAt(database.pool, tenantId, await databaseNow(database.pool)) };
  };
