import { sqlTransactionInTurn } from '#shared/db/transaction.ts';
import { takeTurn } from '#shared/db/turns.ts';
import { usdJson } from '#shared/money.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { type Audited, audit } from '../audit.ts';
import { costLimitAt } from '../budgets.ts';
import type { Sql } from '../db/sql.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { readTerms } from '../leasing/budget.ts';
import { memberCaller } from './caller.ts';

export const setCostLimit =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'setCostLimit'> =>
  async ({ limitNanoUsd }, context) => {
    const caller = memberCaller(context);
    const { tenantId, userId } = caller;
    const budget = await sqlTransactionInTurn(database, caller, async (sql) => {
      await takeCostLimitTurn(sql, caller);
      const nowMs = await databaseNow(sql);
      const { userLimitNanoUsd: before } = await readTerms(sql, tenantId, userId);
      if (before === limitNanoUsd) return costLimitAt(sql, tenantId, userId, nowMs);
      await sql.query({
        text: `
          insert into user_limits (tenant_id, user_id, limit_nano_usd) values ($1, $2, $3)
          on conflict (tenant_id, user_id) do update set limit_nano_usd = excluded.limit_nano_usd`,
        values: [tenantId, userId, limitNanoUsd],
      });
      const change: Audited = {
        tenantId,
        type: 'cost_limit_updated',
        target: { type: 'user', id: userId },
        before: { limit_usd: before === null ? null : usdJson(before) },
        after: { limit_usd: usdJson(limitNanoUsd) },
      };
      await audit(sql, caller, change, nowMs);
      return costLimitAt(sql, tenantId, userId, nowMs);
    });
    return { budget };
  };

/** Changes and removals of the same limit take turns; a limit that does not exist has no row to lock. */
export const takeCostLimitTurn = (sql: Sql, { tenantId, userId }: Caller): Promise<void> =>
  takeTurn(sql, `cost limit of ${tenantId} ${userId}`);
