import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { PriceRates } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { charged } from '../domain/lease.ts';
import type { Posting } from '../domain/ledger.ts';
import { monthOf } from '../domain/period.ts';
import { pricedLines } from '../domain/priced-lines.ts';
import { changeLeases, type LeaseRow, lockLeases, readLeases } from '../leasing/lease-row.ts';
import { addPosted, SpendSums } from '../leasing/spend.ts';
import { lockAccounts } from '../ledger/accounts.ts';
import { lockFunds, saveFunds } from '../ledger/funds.ts';
import { giveDueCredit } from '../ledger/monthly-credit.ts';
import { post } from '../ledger/post.ts';
import { closedMonths, DraftAdditions, firstOpenMonth } from './invoice-drafts.ts';
import { DayTexts, fundedAtMs, madeAtMs, periodsOf, usagePosting } from './usage-posting.ts';

/**
 * Charges the chargeable ones of some events, each once, in the caller's transaction; returns how many were new. Anything that may take
 * long comes before locking the rows of budgets, which requests near their limits wait for.
 */
export async function chargeBatch(
  sql: Sql,
  events: readonly UsageEvent[],
  rates: ReadonlyMap<string, PriceRates>,
  now: () => Promise<number>,
): Promise<number> {
  const tenantIds = [...new Set(events.map(({ tenantId }) => tenantId))];
  const accounts = await lockAccounts(sql, tenantIds);
  // Read after the locks were taken, since waiting for them may have lasted into another day.
  const nowMs = await now();
  await giveDueCredit(sql, [...accounts.values()], nowMs);
  const fresh = await notYetCharged(sql, events);
  const leasesById = await leasesOf(sql, fresh);
  const days = new DayTexts();
  const charges = fresh.map((event) => {
    const leases = event.leaseIds.flatMap((id) => leasesById.get(id) ?? []);
    const madeMs = madeAtMs(event, nowMs);
    return { event, periods: periodsOf(event, madeMs, leases, days), fundedMs: fundedAtMs(event, madeMs, leases) };
  });
  const sinceMs = charges.reduce((earliest, { fundedMs }) => Math.min(earliest, fundedMs), nowMs);
  const funds = await lockFunds(sql, tenantIds, { nowMs, sinceMs });
  const thisMonth = monthOf(nowMs);
  const firstMonth = charges.reduce((first, { periods: { month } }) => (month < first ? month : first), thisMonth);
  const closed = await closedMonths(sql, tenantIds, firstMonth);

  const postings = new Map<string, Posting[]>(tenantIds.map((tenantId) => [tenantId, []]));
  const drafts = new DraftAdditions();
  const spent = new SpendSums();
  for (const { event, periods, fundedMs } of charges) {
    const { tenantId, userId, apiKeyId } = event;
    const costNanoUsd = event.usage?.costNanoUsd ?? 0n;
    if (apiKeyId !== '') {
      spent.add({ tenantId, kind: BudgetKind.API_KEY, subjectId: apiKeyId, periodStart: periods.keyDay }, costNanoUsd);
    }
    spent.add({ tenantId, kind: BudgetKind.USER, subjectId: userId, periodStart: periods.userDay }, costNanoUsd);
    if (costNanoUsd === 0n) continue;
    // What arrives after an invoice was finalized goes onto the next one.
    const month = closed.has(`${tenantId} ${periods.month}`) ? thisMonth : periods.month;
    const invoiceMonth = firstOpenMonth(closed, tenantId, month);
    const { posting, paygNanoUsd } = usagePosting(event, fundedMs, funds.get(tenantId)!, invoiceMonth);
    postings.get(tenantId)!.push(posting);
    if (paygNanoUsd > 0n) {
      spent.add({ tenantId, kind: BudgetKind.ORGANIZATION, subjectId: tenantId, periodStart: month }, paygNanoUsd);
    }
    const lines = pricedLines(rates.get(event.priceVersionId)!, event.usage!, costNanoUsd);
    drafts.add(tenantId, invoiceMonth, event.model, {
      usageMonth: periods.usageMonth,
      lines,
      costNanoUsd,
      paygNanoUsd,
    });
  }

  await post(
    sql,
    tenantIds.map((tenantId) => ({ account: accounts.get(tenantId)!, postings: postings.get(tenantId)! })),
    nowMs,
  );
  await saveFunds(sql, funds);
  await drafts.save(sql);
  await addPosted(sql, spent);
  await chargeLeases(sql, fresh, [...leasesById.keys()]);
  return fresh.length;
}

/** Whether an event has a transaction: it was charged, or never will be. */
export async function isCharged(sql: Sql, event: { tenantId: string; usageEventId: string }): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'is-charged',
    text: 'select from transactions where tenant_id = $1 and usage_event_id = $2',
    values: [event.tenantId, event.usageEventId],
  });
  return rowCount === 1;
}

/** The events that have no transaction yet, each once, in the order of their ids. */
async function notYetCharged(sql: Sql, events: readonly UsageEvent[]): Promise<UsageEvent[]> {
  const { rows } = await sql.query<{ usage_event_id: string }>({
    name: 'charged-events',
    text: `
      select usage_event_id from transactions
      where (tenant_id, usage_event_id) in (select * from unnest($1::uuid[], $2::uuid[]))`,
    values: [plainArray(events.map(({ tenantId }) => tenantId)), plainArray(events.map(({ id }) => id))],
  });
  const known = new Set(rows.map(({ usage_event_id }) => usage_event_id));
  const fresh = new Map(events.filter(({ id }) => !known.has(id)).map((event) => [event.id, event]));
  return [...fresh.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The leases that held room for the events; leases of other organizations do not count. */
async function leasesOf(sql: Sql, events: readonly UsageEvent[]): Promise<Map<string, LeaseRow>> {
  const tenants = new Map(events.flatMap(({ tenantId, leaseIds }) => leaseIds.map((id) => [id, tenantId])));
  if (tenants.size === 0) return new Map();
  const leases = await readLeases(sql, [...tenants.keys()]);
  return new Map(leases.filter(({ id, tenantId }) => tenants.get(id) === tenantId).map((lease) => [lease.id, lease]));
}

/** Turns held room into charged amounts. The rows of the budgets are locked. */
async function chargeLeases(sql: Sql, events: readonly UsageEvent[], leaseIds: readonly string[]): Promise<void> {
  if (leaseIds.length === 0) return;
  const before = await lockLeases(sql, leaseIds);
  const after = new Map(before.map((lease) => [lease.id, lease]));
  for (const { leaseIds, usage } of events) {
    for (const id of leaseIds) {
      const lease = after.get(id);
      if (lease === undefined) continue;
      const state = lease.central && lease.state === LeaseState.HELD ? LeaseState.CLOSED : lease.state;
      after.set(id, { ...charged(lease, usage?.costNanoUsd ?? 0n), state });
    }
  }
  await changeLeases(
    sql,
    before.map((lease) => ({ before: lease, after: after.get(lease.id)! })),
  );
}
