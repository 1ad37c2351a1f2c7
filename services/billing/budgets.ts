import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { BudgetKind, BudgetPeriod, type BudgetSchema } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { dayOf, monthOf, nextDayMs, nextMonthMs } from './domain/period.ts';
import { readTerms } from './leasing/budget.ts';
import { readPosted } from './leasing/spend.ts';

type Budget = MessageInitShape<typeof BudgetSchema>;

/** A user's personal limit and how much of it was spent today. */
export async function costLimitAt(sql: Sql, tenantId: string, userId: string, nowMs: number): Promise<Budget> {
  const { userLimitNanoUsd } = await readTerms(sql, tenantId, userId);
  const key = { tenantId, kind: BudgetKind.USER, subjectId: userId, periodStart: dayOf(nowMs) };
  return budget(userLimitNanoUsd, await readPosted(sql, key), BudgetPeriod.DAY, nextDayMs(nowMs));
}

/** An organization's PAYG cap and how much was spent this month beyond commitment and credit. */
export async function paygCapAt(sql: Sql, tenantId: string, nowMs: number): Promise<Budget> {
  const { paygCapNanoUsd } = await readTerms(sql, tenantId, '');
  const key = { tenantId, kind: BudgetKind.ORGANIZATION, subjectId: tenantId, periodStart: monthOf(nowMs) };
  return budget(paygCapNanoUsd, await readPosted(sql, key), BudgetPeriod.MONTH, nextMonthMs(nowMs));
}

const budget = (limit: bigint | null, spent: bigint, period: BudgetPeriod, resetsAtMs: number): Budget => ({
  limitNanoUsd: limit ?? undefined,
  period,
  spentNanoUsd: spent,
  remainingNanoUsd: limit === null ? undefined : limit > spent ? limit - spent : 0n,
  resetsAt: timestampFromMs(resetsAtMs),
});
