import type { MessageInitShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { BudgetSchema } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransactionInTurn } from '#shared/db/transaction.ts';
import { usdJson } from '#shared/money.ts';
import { paygCapAt } from '../budgets.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { adminCaller } from './caller.ts';

type Deps = Pick<BillingDeps, 'database' | 'databaseNow'>;

export const setPaygSpendCap =
  (deps: Deps): BillingRpc<'setPaygSpendCap'> =>
  async ({ limitNanoUsd }, context) => ({ budget: await changePaygCap(deps, context, limitNanoUsd) });

/** Sets the cap, or removes it with null; shared with its removal. No change resets what was spent. */
export function changePaygCap(
  { database, databaseNow }: Deps,
  context: HandlerContext,
  capNanoUsd: bigint | null,
): Promise<MessageInitShape<typeof BudgetSchema>> {
  const caller = adminCaller(context);
  const { tenantId } = caller;
  return sqlTransactionInTurn(database, { tenantId, signal: context.signal }, async (sql) => {
    const { paygCapNanoUsd: before } = await lockAccount(sql, tenantId);
    const nowMs = await databaseNow(sql);
    if (before !== capNanoUsd) {
      await sql.query({
        text: 'update accounts set payg_cap_nano_usd = $2 where tenant_id = $1',
        values: [tenantId, capNanoUsd],
      });
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'payg_spend_cap_updated',
        target: { type: 'organization', id: tenantId },
        before: { limit_usd: before === null ? null : usdJson(before) },
        after: { limit_usd: capNanoUsd === null ? null : usdJson(capNanoUsd) },
      });
    }
    return paygCapAt(sql, tenantId, nowMs);
  });
}
