import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { PlanEntity } from '../db/entities.ts';
import { planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { giveMonthlyCredit } from '../ledger/monthly-credit.ts';
import { touchRateLimits } from '../rate-limits/feed.ts';

export const assignPlan =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'assignPlan'> =>
  async ({ tenantId, planCode }, context) => {
    const caller = operatorCaller(context);
    const plan = await database.em().findOne(PlanEntity, { code: planCode });
    if (plan === null) throw notFound('plan', { param: 'code' });
    await sqlTransaction(database, async (sql) => {
      const account = await lockAccount(sql, tenantId.toLowerCase());
      const { planCode: before } = account;
      if (before === planCode) return;
      const nowMs = await databaseNow(sql);
      await sql.query({
        text: 'update accounts set plan_code = $2 where tenant_id = $1',
        values: [tenantId, planCode],
      });
      await giveMonthlyCredit(sql, [{ ...account, planCode }], nowMs);
      await touchRateLimits(sql);
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'plan_assigned',
        target: { type: 'organization', id: tenantId },
        before: { plan: before ?? defaultPlanCode },
        after: { plan: planCode },
        asOperator: true,
      });
    });
    return { plan: planMessage(plan) };
  };
