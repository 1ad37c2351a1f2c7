import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { PlanEntity, type PlanRow } from '../db/entities.ts';
import { planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { touchRateLimits } from '../rate-limits/feed.ts';

export const putPlan =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'putPlan'> =>
  async ({ plan: asked }, context) => {
    const caller = operatorCaller(context);
    const { code, name, paygEnabled, rateLimits, included, paymentTermsDays } = asked!;
    const fields = {
      code,
      name: shownName(name, 'name'),
      paygEnabled,
      requestsPerMinute: rateLimits?.requestsPerMinute ?? 0,
      tokensPerMinute: rateLimits?.tokensPerMinute ?? 0,
      concurrentRequests: rateLimits?.concurrentRequests ?? 0,
      monthlyCreditNanoUsd: included?.monthlyCreditNanoUsd ?? 0n,
      features: included?.features ?? [],
      paymentTermsDays,
    };
    const nowMs = await databaseNow(database.pool);
    const plan = await transaction(database, async (em) => {
      await takeAdvisoryLock(em, `plan ${code}`);
      const before = await em.findOne(PlanEntity, { code });
      const after = auditedFields(fields);
      const changes = before === null ? { after } : changedFields(auditedFields(before), after);
      if (changes === null) return before!;
      const row = await em.upsert(PlanEntity, fields);
      await touchRateLimits(em);
      await recordAuditEvent(em, {
        caller,
        occurredAtMs: nowMs,
        tenantId: '',
        type: before === null ? 'plan_created' : 'plan_updated',
        target: { type: 'plan', id: code },
        ...changes,
        asOperator: true,
      });
      return row;
    });
    return { plan: planMessage(plan) };
  };

const auditedFields = (plan: PlanRow) => ({
  name: plan.name,
  payg_enabled: plan.paygEnabled,
  rate_limits: {
    requests_per_minute: plan.requestsPerMinute,
    tokens_per_minute: plan.tokensPerMinute,
    concurrent_requests: plan.concurrentRequests,
  },
  monthly_credit_usd: usdJson(plan.monthlyCreditNanoUsd),
  features: plan.features,
  payment_terms_days: plan.paymentTermsDays,
});
