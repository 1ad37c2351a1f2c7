import type { MessageInitShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { BudgetSchema } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { sqlTransactionInTurn } from '#shared/db/transaction.ts';
import { usdJson } from '#shared/money.ts';
import { costLimitAt } from '../budgets.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { readTerms } from '../leasing/budget.ts';
import { memberCaller } from './caller.ts';

type Deps = Pick<BillingDeps, 'database' | 'databaseNow'>;

export const setCostLimit =
  (deps: Deps): BillingRpc<'setCostLimit'> =>
  async ({ limitNanoUsd }, context) => ({ budget: await changeCostLimit(deps, context, limitNanoUsd) });

/** Sets the caller's limit, or removes it with null; shared with its removal. No change resets what was spent. */
export function changeCostLimit(
  { database, databaseNow }: Deps,
  context: HandlerContext,
  limitNanoUsd: bigint | null,
): Promise<MessageInitShape<typeof BudgetSchema>> {
  const caller = memberCaller(context);
  const { tenantId, userId } = caller;
  return sqlTransactionInTurn(database, { tenantId, signal: context.signal }, async (sql) => {
    // A limit that does not exist has no row to lock.
    await takeAdvisoryLock(sql, `cost limit of ${tenantId} ${userId}`);
    const { userLimitNanoUsd: before } = await readTerms(sql, tenantId, userId);
    const nowMs = await databaseNow(sql);
    if (before !== limitNanoUsd) {
      await sql.query(
        limitNanoUsd === null
          ? { text: 'delete from user_limits where tenant_id = $1 and user_id = $2', values: [tenantId, userId] }
          : {
              text: `
                insert into user_limits (tenant_id, user_id, limit_nano_usd) values ($1, $2, $3)
                on conflict (tenant_id, user_id) do update set limit_nano_usd = excluded.limit_nano_usd`,
              values: [tenantId, userId, limitNanoUsd],
            },
      );
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'cost_limit_updated',
        target: { type: 'user', id: userId },
        before: { limit_usd: before === null ? null : usdJson(before) },
        after: { limit_usd: limitNanoUsd === null ? null : usdJson(limitNanoUsd) },
      });
    }
    return costLimitAt(sql, tenantId, userId, nowMs);
  });
}
