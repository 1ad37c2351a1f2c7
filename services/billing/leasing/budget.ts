import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { larger } from '../domain/amounts.ts';
import type { BudgetState } from '../domain/lease.ts';
import { dayOf, monthOf, nextDayMs, nextMonthMs, type PeriodStart, startOfPeriodMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type CreditNote, lockAccounts } from '../ledger/accounts.ts';
import { readFunds } from '../ledger/funds.ts';
import { giveDueCredit } from '../ledger/monthly-credit.ts';
import { heldBefore } from './lease-row.ts';
import { type BudgetKey, lockSpends, readMonths, readSpends } from './spend.ts';

/** What limits an organization and one of its users. */
export type Terms = {
  paygEnabled: boolean;
  paygCapNanoUsd: bigint | null;
  userLimitNanoUsd: bigint | null;
} & CreditNote;

/** Reads the terms without a lock; `userId` may be empty. */
export async function readTerms(sql: Sql, tenantId: string, userId: string): Promise<Terms> {
  const [terms] = await readTermsOf(sql, [{ tenantId, userId }]);
  return terms!;
}

/** Reads the terms of many without a lock, in the order in which they are asked for. */
export async function readTermsOf(sql: Sql, asked: readonly { tenantId: string; userId: string }[]): Promise<Terms[]> {
  const { rows } = await sql.query<{
    payg_enabled: boolean;
    payg_cap_nano_usd: bigint | null;
    monthly_credit_nano_usd: bigint;
    credit_month: PeriodStart | null;
    included_nano_usd: bigint | null;
    limit_nano_usd: bigint | null;
  }>({
    name: 'read-terms',
    text: `
      select payg_enabled, payg_cap_nano_usd, monthly_credit_nano_usd, month as credit_month, included_nano_usd,
        limit_nano_usd
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
    includedNanoUsd: row.included_nano_usd,
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

/** Now, and until when leases given now may be held. */
type LeaseTimes = { nowMs: number; untilMs: number };

/**
 * Locks the rows through which budgets are changed: organizations' accounts first, then the spend of all; returns them in the order requested.
 */
export async function lockBudgets(
  sql: Sql,
  asked: readonly LimitedBudget[],
  times: LeaseTimes,
): Promise<BudgetState[]> {
  const termsOf = new Map(
    asked.filter(({ budget }) => isOfOrganization(budget)).map(({ budget, terms }) => [budget.tenantId, terms]),
  );
  if (termsOf.size > 0) {
    const accounts = await lockAccounts(sql, [...termsOf.keys()]);
    await giveDueCredit(sql, [...accounts.values()], times.nowMs);
  }
  const organizations = await readOrganizations(sql, termsOf, times);
  const spends = await lockSpends(
    sql,
    asked.map(({ budget }) => budget),
  );
  return asked.map(({ budget, keyLimitNanoUsd, terms }, index) => {
    if (isOfOrganization(budget)) return organizations.get(budget.tenantId)!;
    const limitNanoUsd = budget.kind === BudgetKind.API_KEY ? keyLimitNanoUsd : terms.userLimitNanoUsd;
    return { limitNanoUsd: limitNanoUsd ?? unlimited, ...spends[index]! };
  });
}

/**
 * Reads budgets without locks, any number of them in a few statements: they may change meanwhile, and credit that is due to an organization
 * is missing.
 */
export async function readBudgets(
  sql: Sql,
  asked: readonly Omit<LimitedBudget, 'terms'>[],
  times: LeaseTimes,
): Promise<BudgetState[]> {
  const ofOthers = asked.map(({ budget }) => budget).filter(({ kind }) => kind !== BudgetKind.API_KEY);
  const userIn = (budget: BudgetKey) => (budget.kind === BudgetKind.USER ? budget.subjectId : '');
  const terms =
    ofOthers.length === 0
      ? []
      : await readTermsOf(
          sql,
          ofOthers.map((budget) => ({ tenantId: budget.tenantId, userId: userIn(budget) })),
        );
  const termsOf = new Map(ofOthers.map((budget, index) => [budget, terms[index]!]));
  const organizations = await readOrganizations(
    sql,
    new Map(ofOthers.filter(isOfOrganization).map((budget) => [budget.tenantId, termsOf.get(budget)!])),
    times,
  );
  const spends = await readSpends(
    sql,
    asked.map(({ budget }) => budget).filter((budget) => !isOfOrganization(budget)),
  );
  return asked.map(({ budget, keyLimitNanoUsd }) => {
    if (isOfOrganization(budget)) return organizations.get(budget.tenantId)!;
    const limitNanoUsd = budget.kind === BudgetKind.API_KEY ? keyLimitNanoUsd : termsOf.get(budget)!.userLimitNanoUsd;
    const spend = spends.get(budget.subjectId)?.find(({ periodStart }) => periodStart === budget.periodStart);
    return { limitNanoUsd: limitNanoUsd ?? unlimited, ...(spend ?? { postedNanoUsd: 0n, heldNanoUsd: 0n }) };
  });
}

/** Locks one budget, as `lockBudgets` does. */
export async function lockBudget(sql: Sql, asked: LimitedBudget, times: LeaseTimes): Promise<BudgetState> {
  const [state] = await lockBudgets(sql, [asked], times);
  return state!;
}

/** Locks these rows alone, for changes of leases that need to know nothing of their budgets. */
export async function lockRowsOf(sql: Sql, budgets: readonly BudgetKey[]): Promise<void> {
  const tenantIds = new Set(budgets.filter(isOfOrganization).map(({ tenantId }) => tenantId));
  if (tenantIds.size > 0) await lockAccounts(sql, [...tenantIds]);
  await lockSpends(
    sql,
    budgets.filter((budget) => !isOfOrganization(budget)),
  );
}

const isOfOrganization = ({ kind }: BudgetKey): boolean => kind === BudgetKind.ORGANIZATION;

/** Above anything that can be spent; the sum of a few of these still fits into 64 bits. */
const unlimited = 2_000_000_000_000_000_000n;

/** Longer than a job waits, from its submission to its end, in milliseconds. */
const waitingMsMax = 25 * 3_600_000;

/**
 * What organizations can still pay, as budgets: commitment and lots, and PAYG up to its cap. The limit is what is left, so nothing counts as
 * posted. Room held over from last month, or since before some credit ended, is taken from what could pay then, including that credit; only
 * what that does not cover counts as PAYG of this month.
 */
async function readOrganizations(
  sql: Sql,
  termsOf: ReadonlyMap<string, Terms>,
  { nowMs, untilMs }: LeaseTimes,
): Promise<Map<string, BudgetState>> {
  const budgets = new Map<string, BudgetState>();
  if (termsOf.size === 0) return budgets;
  const month = monthOf(nowMs);
  const startMs = startOfPeriodMs(month);
  const endOfLastMs = startMs - 1;
  const waitingSinceMs = Math.max(startMs, nowMs - waitingMsMax);
  const spends = await readMonths(sql, [...termsOf.keys()], { month, lastMonth: monthOf(endOfLastMs) });
  const isAnyHeldOver = [...spends.values()].some(({ heldOverNanoUsd }) => heldOverNanoUsd > 0n);
  const sinceMs = isAnyHeldOver ? endOfLastMs : waitingSinceMs;
  const funds = await readFunds(sql, [...termsOf.keys()], { nowMs, sinceMs });
  for (const [tenantId, terms] of termsOf) {
    const { postedNanoUsd, heldNanoUsd, heldOverNanoUsd } = spends.get(tenantId)!;
    const own = funds.get(tenantId)!;
    // Once the invoice of last month is final, what no credit pays is PAYG of this month.
    let { paygNanoUsd } = own.draw(heldOverNanoUsd, endOfLastMs);
    let heldNowNanoUsd = heldNanoUsd - heldOverNanoUsd;
    const turnsMs = heldNowNanoUsd > 0n ? own.turns(waitingSinceMs, nowMs) : [];
    if (turnsMs.length > 0) {
      const budget = { tenantId, kind: BudgetKind.ORGANIZATION, subjectId: tenantId, periodStart: month };
      for (const [place, waitingNanoUsd] of (await heldBefore(sql, budget, turnsMs, nowMs)).entries()) {
        paygNanoUsd += own.draw(waitingNanoUsd, turnsMs[place]! - 1).paygNanoUsd;
        heldNowNanoUsd -= waitingNanoUsd;
      }
    }
    const creditNanoUsd = own.usable(nowMs, nowMs);
    budgets.set(tenantId, {
      limitNanoUsd: creditNanoUsd + paygRoom(terms, postedNanoUsd + paygNanoUsd),
      postedNanoUsd: 0n,
      heldNanoUsd: heldNowNanoUsd,
      endingNanoUsd: creditNanoUsd - own.usable(nowMs, untilMs),
    });
  }
  return budgets;
}

function paygRoom({ paygEnabled, paygCapNanoUsd }: Terms, spentNanoUsd: bigint): bigint {
  if (!paygEnabled) return 0n;
  if (paygCapNanoUsd === null) return unlimited;
  return larger(paygCapNanoUsd - spentNanoUsd, 0n);
}
