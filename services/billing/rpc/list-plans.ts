import { operatorCaller } from '#shared/rpc/caller.ts';
import { PlanEntity } from '../db/entities.ts';
import { planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const listPlans =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listPlans'> =>
  async (_request, context) => {
    operatorCaller(context);
    const plans = await database.em().find(PlanEntity, {}, { orderBy: { code: 'asc' } });
    return { plans: plans.map(planMessage) };
  };
