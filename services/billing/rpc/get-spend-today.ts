import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { dayOf, nextDayMs } from '../domain/period.ts';

export const getSpendToday =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getSpendToday'> =>
  async ({ apiKeyIds, tenantId }, context) => {
    requireService(callerOf(context));
    const nowMs = await databaseNow(database.pool);
    const { rows } = await database.query<{ subject_id: string; posted_nano_usd: bigint }>({
      name: 'spend-today',
      text: `
        select subject_id, posted_nano_usd from spend
        where tenant_id = $1 and kind = ${BudgetKind.API_KEY} and subject_id = any($2::uuid[]) and period_start = $3`,
      values: [tenantId, apiKeyIds, dayOf(nowMs)],
    });
    const spent = new Map(rows.map((row) => [row.subject_id, row.posted_nano_usd]));
    return {
      spends: apiKeyIds.map((apiKeyId) => ({ apiKeyId, spentNanoUsd: spent.get(apiKeyId.toLowerCase()) ?? 0n })),
      resetsAt: timestampFromMs(nextDayMs(nowMs)),
    };
  };
