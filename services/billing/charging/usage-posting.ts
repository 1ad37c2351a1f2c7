import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { isUuid, isUuidv7, uuidv7Ms } from '#shared/ids.ts';
import type { Funds } from '../domain/draw-order.ts';
import { type Posting, postingDefaults } from '../domain/ledger.ts';
import { dayMs, dayOf, monthOfDay, nextMonthMs, type PeriodStart, startOfPeriodMs } from '../domain/period.ts';
import type { LeaseRow } from '../leasing/lease-row.ts';

/** Why an event can never be charged, for the log; null when it can. */
export function refusalOf(event: UsageEvent, isPriced: (versionId: string) => boolean): string | null {
  if (!isUuid(event.id) || !isUuid(event.tenantId) || !isUuid(event.userId)) return 'an id is not a UUID';
  if (event.apiKeyId !== '' && !isUuid(event.apiKeyId)) return 'apiKeyId is not a UUID';
  if (!event.leaseIds.every(isUuid)) return 'leaseIds has something other than UUIDs';
  const cost = event.usage?.costNanoUsd ?? 0n;
  if (cost < 0n) return 'the cost is negative';
  if (cost > 0n && !isPriced(event.priceVersionId)) return 'the price version is unknown';
  return null;
}

/** The texts of a batch's days: there are few, so each is formatted once. */
export class DayTexts {
  readonly #texts = new Map<number, PeriodStart>();

  at(ms: number): PeriodStart {
    const day = Math.floor(ms / dayMs);
    let text = this.#texts.get(day);
    if (text === undefined) {
      text = dayOf(ms);
      this.#texts.set(day, text);
    }
    return text;
  }
}

/** The periods in which an event counts. */
type EventPeriods = {
  keyDay: PeriodStart;
  userDay: PeriodStart;
  month: PeriodStart;
  /** In which usage reports count it: they go by the edge's clock, even where that is ahead. */
  usageMonth: PeriodStart;
};

/**
 * A lease records the period whose budget had room, and the charge counts there, however late it comes. Without a lease the event's own
 * time decides.
 */
export function periodsOf(
  { id }: UsageEvent,
  madeMs: number,
  leases: readonly LeaseRow[],
  days: DayTexts,
): EventPeriods {
  const day = days.at(madeMs);
  const periodOf = (kind: BudgetKind): PeriodStart | undefined =>
    leases.find((lease) => lease.kind === kind)?.periodStart;
  return {
    keyDay: periodOf(BudgetKind.API_KEY) ?? day,
    userDay: periodOf(BudgetKind.USER) ?? day,
    month: periodOf(BudgetKind.ORGANIZATION) ?? monthOfDay(day),
    usageMonth: monthOfDay(days.at(uuidv7Ms(id))),
  };
}

/** When a call was made: no edge's clock may run ahead of the database's. */
export const madeAtMs = ({ id }: UsageEvent, nowMs: number): number => Math.min(uuidv7Ms(id), nowMs);

/**
 * The moment whose credit pays for a call. With a hold of its own: when room was found for it, since a background job may run much later.
 * For a job without one, because nothing limits it: when it was submitted. For any other call: when it was made, but not before its room was
 * found, as that of a job that is tried again. The moment is moved into the month of the room, since an edge's clock may be in another.
 */
export function fundedAtMs({ jobId }: UsageEvent, madeMs: number, leases: readonly LeaseRow[]): number {
  const lease = leases.find(({ kind }) => kind === BudgetKind.ORGANIZATION);
  if (lease === undefined) return isUuidv7(jobId) ? Math.min(uuidv7Ms(jobId), madeMs) : madeMs;
  const paidMs = lease.central ? lease.grantedAtMs : Math.max(madeMs, lease.grantedAtMs);
  const startMs = startOfPeriodMs(lease.periodStart);
  return Math.min(Math.max(paidMs, startMs), nextMonthMs(startMs) - 1);
}

/** The posting of one call, paid with the credit of `atMs`: what it draws on, against revenue. */
export function usagePosting(
  event: UsageEvent,
  atMs: number,
  funds: Funds,
  month: PeriodStart,
): { posting: Posting; paygNanoUsd: bigint } {
  const cost = event.usage!.costNanoUsd;
  const { debits, paygNanoUsd } = funds.draw(cost, atMs);
  const posting: Posting = {
    ...postingDefaults,
    type: TransactionType.USAGE,
    amountNanoUsd: -cost,
    invoiceMonth: month,
    usageEventId: event.id,
    description: event.model,
    entries: [...debits, { account: 'revenue', itemId: null, amountNanoUsd: -cost }],
  };
  return { posting, paygNanoUsd };
}
