import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { nextLimits, ownLimitFields } from '#shared/rate-limits.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { touchRateLimits } from '../rate-limits/feed.ts';
import { effectiveRateLimits, ownRateLimits } from '../rate-limits/read-limits.ts';

export const setOrganizationRateLimits =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'setOrganizationRateLimits'> =>
  async ({ tenantId: id, rateLimits, changes }, context) => {
    const caller = operatorCaller(context);
    const tenantId = id.toLowerCase();
    const limits = await sqlTransaction(database, async (sql) => {
      await lockAccount(sql, tenantId);
      const own = await ownRateLimits(sql, tenantId);
      const limits = nextLimits(own, { limits: rateLimits, changes });
      const before = ownLimitFields(own);
      const after = ownLimitFields(limits);
      if (JSON.stringify(before) === JSON.stringify(after)) return limits;
      await sql.query({
        text: `update accounts set requests_per_minute = $2, tokens_per_minute = $3, concurrent_requests = $4
          where tenant_id = $1`,
        values: [tenantId, limits.requestsPerMinute, limits.tokensPerMinute, limits.concurrentRequests],
      });
      await touchRateLimits(sql);
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: await databaseNow(sql),
        tenantId,
        type: 'organization_rate_limits_updated',
        target: { type: 'organization', id: tenantId },
        before,
        after,
        asOperator: true,
      });
      return limits;
    });
    return { rateLimits: limits, effectiveRateLimits: await effectiveRateLimits(database.pool, tenantId) };
  };
