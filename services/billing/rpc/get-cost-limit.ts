import { costLimitAt } from '../budgets.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { memberCaller } from './caller.ts';

export const getCostLimit =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getCostLimit'> =>
  async (_request, context) => {
    const { tenantId, userId } = memberCaller(context);
    return { budget: await costLimitAt(database.pool, tenantId, userId, await databaseNow(database.pool)) };
  };
