import { planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { planOf } from '../plans.ts';
import { memberCaller } from './caller.ts';

export const getCurrentPlan =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'getCurrentPlan'> =>
  async (_request, context) => {
    const { tenantId } = memberCaller(context);
    return { plan: planMessage(await planOf(database.em(), database.pool, tenantId)) };
  };
