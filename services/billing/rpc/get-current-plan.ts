import { paygCapAt } from '../budgets.ts';
import { planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { readFunds } from '../ledger/funds.ts';
import { giveCreditBeforeLook } from '../ledger/monthly-credit.ts';
import { planOf } from '../plans.ts';
import { memberCaller } from './caller.ts';

export const getCurrentPlan =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getCurrentPlan'> =>
  async (_request, context) => {
    const { tenantId } = memberCaller(context);
    const { pool } = database;
    const nowMs = await databaseNow(pool);
    await giveCreditBeforeLook(database, tenantId, nowMs);
    const [plan, funds, paygCap] = await Promise.all([
      planOf(database.em(), pool, tenantId),
      readFunds(pool, [tenantId], { nowMs }),
      paygCapAt(pool, tenantId, nowMs),
    ]);
    const isCreditLeft = funds.get(tenantId)!.usable(nowMs, nowMs) > 0n;
    const isPaygLeft = plan.paygEnabled && paygCap.remainingNanoUsd !== 0n;
    return { plan: planMessage(plan), fundsExhausted: !isCreditLeft && !isPaygLeft };
  };
