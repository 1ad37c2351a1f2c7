import { sqlTransactionInTurn } from '#shared/db/transaction.ts';
import { usdJson } from '#shared/money.ts';
import { type Audited, audit } from '../audit.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { memberCaller } from './caller.ts';
import { takeCostLimitTurn } from './set-cost-limit.ts';

export const deleteCostLimit =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'deleteCostLimit'> =>
  async (_request, context) => {
    const caller = memberCaller(context);
    const { tenantId, userId } = caller;
    await sqlTransactionInTurn(database, caller, async (sql) => {
      await takeCostLimitTurn(sql, caller);
      const { rows } = await sql.query<{ limit_nano_usd: bigint }>({
        text: 'delete from user_limits where tenant_id = $1 and user_id = $2 returning limit_nano_usd',
        values: [tenantId, userId],
      });
      if (rows[0] === undefined) return;
      const change: Audited = {
        tenantId,
        type: 'cost_limit_updated',
        target: { type: 'user', id: userId },
        before: { limit_usd: usdJson(rows[0].limit_nano_usd) },
        after: { limit_usd: null },
      };
      await audit(sql, caller, change, await databaseNow(sql));
    });
    return {};
  };
