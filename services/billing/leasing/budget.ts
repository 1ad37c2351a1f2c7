import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '../db/sql.ts';
import type { BudgetState } from '../domain/lease.ts';
import { dayOf, monthOf, nextDayMs, nextMonthMs, type PeriodStart } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, lockAccount } from '../ledger/accounts.ts';
import type { BudgetOfLease } from './lease-row.ts';
import { lockSpend, readPosted } from './spend.ts';

/** What limits an organization and one of its users. */
export type Terms = { paygEnabled: boolean; paygCapNanoUsd: bigint | null; userLimitNanoUsd: bigint | null };

/** Reads the terms without a lock; `userId` may be empty. */
export async function readTerms(sql: Sql, tenantId: string, userId: string): Promise<Terms> {
  const { rows } = await sql.query<{
    payg_enabled: boolean;
    payg_cap_nano_usd: bigint | null;
    limit_nano_usd: bigint | null;
  }>({
    name: 'read-terms',
    text: `
      select plans.payg_enabled, accounts.payg_cap_nano_usd, user_limits.limit_nano_usd
      from (select $1::uuid as tenant_id) as tenant
      left join accounts using (tenant_id)
      join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
      left join user_limits on user_limits.tenant_id = tenant.tenant_id and user_limits.user_id = nullif($2, '')::uuid`,
    values: [tenantId, userId],
  });
  const { payg_enabled, payg_cap_nano_usd, limit_nano_usd } = rows[0]!;
  return { paygEnabled: payg_enabled, paygCapNanoUsd: payg_cap_nano_usd, userLimitNanoUsd: limit_nano_usd };
}

/** Whether what the organization can pay has an end. */
export const isOrganizationLimited = ({ paygEnabled, paygCapNanoUsd }: Terms): boolean =>
  !paygEnabled || paygCapNanoUsd !== null;

/** The period of a budget at a moment. */
export const periodAt = (kind: BudgetKind, nowMs: number): PeriodStart =>
  kind === BudgetKind.ORGANIZATION ? monthOf(nowMs) : dayOf(nowMs);

export const resetsAtMs = (kind: BudgetKind, nowMs: number): number =>
  kind === BudgetKind.ORGANIZATION ? nextMonthMs(nowMs) : nextDayMs(nowMs);

/** Locks the row by which a budget is changed: the organization's account, or the key's or user's spend. */
export async function lockBudget(
  sql: Sql,
  budget: BudgetOfLease,
  limits: { keyLimitNanoUsd: bigint | null; terms: Terms },
  nowMs: number,
): Promise<BudgetState> {
  switch (budget.kind) {
    case BudgetKind.ORGANIZATION: {
      const account = await lockAccount(sql, budget.tenantId);
      return organizationBudget(sql, account, limits.terms, nowMs);
    }
    case BudgetKind.API_KEY:
      return { limitNanoUsd: limits.keyLimitNanoUsd ?? unlimited, ...(await lockSpend(sql, budget)) };
    default:
      return { limitNanoUsd: limits.terms.userLimitNanoUsd ?? unlimited, ...(await lockSpend(sql, budget)) };
  }
}

/** Above anything that can be spent; sums of a few of these still fit into 64 bits. */
const unlimited = 2_000_000_000_000_000_000n;

/**
 * What an organization can still pay, as a budget: commitment and lots, and PAYG up to its cap. Its limit is what is left, so
 * that nothing counts as posted.
 */
export async function organizationBudget(
  sql: Sql,
  account: Account,
  terms: Terms,
  nowMs: number,
): Promise<BudgetState> {
  const { tenantId } = account;
  const { rows } = await sql.query<{ credit: bigint }>({
    name: 'usable-credit',
    text: `
      select (
        (select coalesce(sum(remaining_nano_usd), 0) from lots
          where tenant_id = $1 and remaining_nano_usd > 0 and (expires_at is null or expires_at > $2))
        + (select coalesce(sum(amount_nano_usd - consumed_nano_usd - expired_nano_usd), 0) from commitments
          where tenant_id = $1 and period_start <= $2 and period_end > $2))::bigint as credit`,
    values: [tenantId, new Date(nowMs)],
  });
  const limitNanoUsd = rows[0]!.credit + (await paygRoom(sql, tenantId, terms, nowMs));
  return { limitNanoUsd, postedNanoUsd: 0n, heldNanoUsd: account.heldNanoUsd };
}

async function paygRoom(sql: Sql, tenantId: string, terms: Terms, nowMs: number): Promise<bigint> {
  if (!terms.paygEnabled) return 0n;
  if (terms.paygCapNanoUsd === null) return unlimited;
  const kind = BudgetKind.ORGANIZATION;
  const spent = await readPosted(sql, { tenantId, kind, subjectId: tenantId, periodStart: monthOf(nowMs) });
  return spent < terms.paygCapNanoUsd ? terms.paygCapNanoUsd - spent : 0n;
}
