import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { plainArray, type Sql } from '../db/sql.ts';
import type { BudgetState } from '../domain/lease.ts';
import { dayOf, monthOf, nextDayMs, nextMonthMs, type PeriodStart } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, lockAccounts } from '../ledger/accounts.ts';
import { giveCreditOfNewMonth } from '../ledger/monthly-credit.ts';
import { type BudgetKey, lockSpends, readPosted } from './spend.ts';

/** What limits an organization and one of its users. */
export type Terms = {
  paygEnabled: boolean;
  paygCapNanoUsd: bigint | null;
  /** What the plan includes each month. */
  monthlyCreditNanoUsd: bigint;
  /** The last month for which the plan was asked for it; null: none yet. */
  creditMonth: PeriodStart | null;
  userLimitNanoUsd: bigint | null;
};

/** Reads the terms without a lock; `userId` may be empty. */
export async function readTerms(sql: Sql, tenantId: string, userId: string): Promise<Terms> {
  const [terms] = await readTermsOf(sql, [{ tenantId, userId }]);
  return terms!;
}

/** The same for many, in their order. */
export async function readTermsOf(sql: Sql, asked: readonly { tenantId: string; userId: string }[]): Promise<Terms[]> {
  const { rows } = await sql.query<{
    payg_enabled: boolean;
    payg_cap_nano_usd: bigint | null;
    monthly_credit_nano_usd: bigint;
    credit_month: PeriodStart | null;
    limit_nano_usd: bigint | null;
  }>({
    name: 'read-terms',
    text: `
      select payg_enabled, payg_cap_nano_usd, monthly_credit_nano_usd, month as credit_month, limit_nano_usd
      from unnest($1::uuid[], $2::uuid[]) with ordinality as asked (tenant_id, user_id, place)
      left join accounts using (tenant_id)
      join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
      left join credit_months using (tenant_id)
      left join user_limits using (tenant_id, user_id)
      order by place`,
    values: [
      plainArray(asked.map(({ tenantId }) => tenantId)),
      plainArray(asked.map(({ userId }) => (userId === '' ? null : userId))),
    ],
  });
  return rows.map((row) => ({
    paygEnabled: row.payg_enabled,
    paygCapNanoUsd: row.payg_cap_nano_usd,
    monthlyCreditNanoUsd: row.monthly_credit_nano_usd,
    creditMonth: row.credit_month,
    userLimitNanoUsd: row.limit_nano_usd,
  }));
}

/** Whether there is an end to what the organization can pay. */
export const isOrganizationLimited = ({ paygEnabled, paygCapNanoUsd }: Terms): boolean =>
  !paygEnabled || paygCapNanoUsd !== null;

/** The period of a budget at a moment. */
export const periodAt = (kind: BudgetKind, nowMs: number): PeriodStart =>
  kind === BudgetKind.ORGANIZATION ? monthOf(nowMs) : dayOf(nowMs);

export const resetsAtMs = (kind: BudgetKind, nowMs: number): number =>
  kind === BudgetKind.ORGANIZATION ? nextMonthMs(nowMs) : nextDayMs(nowMs);

/** A budget and its limit: a key's cap as its holder knows it, for the others the terms. */
export type LimitedBudget = { budget: BudgetKey; keyLimitNanoUsd: bigint | null; terms: Terms };

/**
 * Locks the rows through which budgets are changed: organizations' accounts first, then keys' and users' spend; returns them in the order
 * requested. `untilMs` is how long leases given now may be held.
 */
export async function lockBudgets(
  sql: Sql,
  asked: readonly LimitedBudget[],
  nowMs: number,
  untilMs: number,
): Promise<BudgetState[]> {
  const termsOf = new Map(
    asked.filter(({ budget }) => isOfOrganization(budget)).map(({ budget, terms }) => [budget.tenantId, terms]),
  );
  const organizations = new Map<string, BudgetState>();
  if (termsOf.size > 0) {
    for (const [tenantId, account] of await lockAccounts(sql, [...termsOf.keys()])) {
      await giveCreditOfNewMonth(sql, account, nowMs);
      organizations.set(tenantId, await organizationBudget(sql, account, termsOf.get(tenantId)!, nowMs, untilMs));
    }
  }
  const ofSpend = asked.filter(({ budget }) => !isOfOrganization(budget));
  const spends = await lockSpends(
    sql,
    ofSpend.map(({ budget }) => budget),
  );
  const locked = new Map(ofSpend.map((one, index) => [one, spends[index]!]));
  return asked.map((one) => {
    if (isOfOrganization(one.budget)) return organizations.get(one.budget.tenantId)!;
    const isOfKey = one.budget.kind === BudgetKind.API_KEY;
    const limitNanoUsd = isOfKey ? one.keyLimitNanoUsd : one.terms.userLimitNanoUsd;
    return { limitNanoUsd: limitNanoUsd ?? unlimited, ...locked.get(one)! };
  });
}

/** The same for one. */
export async function lockBudget(sql: Sql, asked: LimitedBudget, nowMs: number, untilMs: number): Promise<BudgetState> {
  const [state] = await lockBudgets(sql, [asked], nowMs, untilMs);
  return state!;
}

const isOfOrganization = ({ kind }: BudgetKey): boolean => kind === BudgetKind.ORGANIZATION;

/** Above anything that can be spent; the sum of a few of these still fits into 64 bits. */
const unlimited = 2_000_000_000_000_000_000n;

/**
 * What an organization can still pay, as a budget: commitment and lots, and PAYG up to its cap. The limit is what is left, so nothing
 * counts as posted.
 */
async function organizationBudget(
  sql: Sql,
  account: Account,
  terms: Terms,
  nowMs: number,
  untilMs: number,
): Promise<BudgetState> {
  const { tenantId } = account;
  const { rows } = await sql.query<{ credit: bigint; ending: bigint }>({
    name: 'usable-credit',
    text: `
      select coalesce(sum(amount), 0)::bigint as credit,
        coalesce(sum(amount) filter (where ends_at < $3), 0)::bigint as ending
      from (
        select remaining_nano_usd as amount, expires_at as ends_at from lots
          where tenant_id = $1 and remaining_nano_usd > 0 and (expires_at is null or expires_at > $2)
        union all
        select amount_nano_usd - consumed_nano_usd - expired_nano_usd, period_end from commitments
          where tenant_id = $1 and period_start <= $2 and period_end > $2) as usable`,
    values: [tenantId, new Date(nowMs), new Date(untilMs)],
  });
  const { credit, ending } = rows[0]!;
  return {
    limitNanoUsd: credit + (await paygRoom(sql, tenantId, terms, nowMs)),
    postedNanoUsd: 0n,
    heldNanoUsd: account.heldNanoUsd,
    endingNanoUsd: ending,
  };
}

async function paygRoom(sql: Sql, tenantId: string, terms: Terms, nowMs: number): Promise<bigint> {
  if (!terms.paygEnabled) return 0n;
  if (terms.paygCapNanoUsd === null) return unlimited;
  const kind = BudgetKind.ORGANIZATION;
  const spent = await readPosted(sql, { tenantId, kind, subjectId: tenantId, periodStart: monthOf(nowMs) });
  return spent < terms.paygCapNanoUsd ? terms.paygCapNanoUsd - spent : 0n;
}
