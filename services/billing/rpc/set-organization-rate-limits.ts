import { sqlTransaction } from '#shared/db/transaction.ts';
import { ownLimitFields, type RateLimits } from '#shared/rate-limits.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { type Audited, audit } from '../audit.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { touchRateLimits } from '../rate-limits/feed.ts';
import { effectiveRateLimits, ownRateLimits } from '../rate-limits/read-limits.ts';

export const setOrganizationRateLimits =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'setOrganizationRateLimits'> =>
  async ({ tenantId: id, rateLimits: asked }, context) => {
    const caller = operatorCaller(context);
    const tenantId = id.toLowerCase();
    const limits: RateLimits = {
      requestsPerMinute: asked?.requestsPerMinute ?? 0,
      tokensPerMinute: asked?.tokensPerMinute ?? 0,
      concurrentRequests: asked?.concurrentRequests ?? 0,
    };
    await sqlTransaction(database, async (sql) => {
      await lockAccount(sql, tenantId);
      const before = ownLimitFields(await ownRateLimits(sql, tenantId));
      const after = ownLimitFields(limits);
      if (JSON.stringify(before) === JSON.stringify(after)) return;
      await sql.query({
        text: `update accounts set requests_per_minute = $2, tokens_per_minute = $3, concurrent_requests = $4
          where tenant_id = $1`,
        values: [tenantId, limits.requestsPerMinute, limits.tokensPerMinute, limits.concurrentRequests],
      });
      await touchRateLimits(sql);
      const change: Audited = {
        tenantId,
        type: 'organization_rate_limits_updated',
        target: { type: 'organization', id: tenantId },
        before,
        after,
        asOperator: true,
      };
      await audit(sql, caller, change, await databaseNow(sql));
    });
    return { rateLimits: limits, effectiveRateLimits: await effectiveRateLimits(database.pool, tenantId) };
  };
