import type { FilterQuery } from '@mikro-orm/postgresql';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { pagesById } from '#shared/db/pages-by-id.ts';
import { firstIdAt } from '#shared/ids.ts';
import type { PageRows } from '#shared/page.ts';
import { TransactionEntity, type TransactionRow } from './db/entities.ts';
import { dayMs, startOfPeriodMs } from './domain/period.ts';

/** What a list is narrowed by; days are UTC days, both included. */
type Narrowing = {
  tenantId: string;
  type?: TransactionType;
  firstDay?: Temporal.PlainDate | null;
  lastDay?: Temporal.PlainDate | null;
  invoiceMonth?: string;
  /** Only the charges of these usage events; all transactions if there are none. */
  usageEventIds?: readonly string[];
};

/**
 * A page of an organization's transactions, newest first, and how many there are in all. There may be millions, so both come from the counts by
 * day: only transactions of the page's own days are read.
 */
export async function pageOfTransactions(
  database: Pick<ServiceDatabase, 'em' | 'query'>,
  narrowing: Narrowing,
  { offset, limit }: Pick<PageRows, 'offset' | 'limit'>,
): Promise<{ rows: TransactionRow[]; total: number }> {
  const { usageEventIds = [] } = narrowing;
  const where = narrowedTo(narrowing);
  const newestFirst = { orderBy: { id: 'desc' }, limit } as const;
  if (usageEventIds.length > 0) {
    const charges = { ...where, usageEventId: { $in: [...usageEventIds] } };
    const [rows, total] = await database.em().findAndCount(TransactionEntity, charges, { ...newestFirst, offset });
    return { rows, total };
  }
  const days = await daysWithTransactions(database, narrowing);
  const total = days.at(-1)?.soFar ?? 0;
  const newest = days.findIndex(({ soFar }) => soFar > offset);
  if (newest === -1) return { rows: [], total };
  const oldest = days.findIndex(({ soFar }) => soFar >= Math.min(offset + limit, total));
  const later = days[newest - 1]?.soFar ?? 0;
  const id = { $gte: firstIdAt(days[oldest]!.idDay * dayMs), $lt: firstIdAt((days[newest]!.idDay + 1) * dayMs) };
  const rows = await database
    .em()
    .find(TransactionEntity, { ...where, id }, { ...newestFirst, offset: offset - later });
  return { rows, total };
}

const narrowedTo = ({
  tenantId,
  type = TransactionType.UNSPECIFIED,
  firstDay = null,
  lastDay = null,
  invoiceMonth,
}: Narrowing): FilterQuery<TransactionRow> => ({
  tenantId,
  type: type === TransactionType.UNSPECIFIED ? { $gt: 0 } : type,
  postedAt: {
    ...(firstDay !== null && { $gte: startOf(firstDay) }),
    ...(lastDay !== null && { $lt: startOf(lastDay.add({ days: 1 })) }),
  },
  ...(invoiceMonth !== undefined && { invoiceMonth }),
});

/** All transactions of such a list, oldest first, in pages of at most `limit`. */
export async function* transactionsInOrder(
  database: Pick<ServiceDatabase, 'em' | 'query'>,
  narrowing: Narrowing,
  limit: number,
): AsyncGenerator<TransactionRow[], undefined> {
  const where = narrowedTo(narrowing);
  const days = await daysWithTransactions(database, narrowing);
  for (const { idDay } of days.reverse()) {
    const time = { startMs: idDay * dayMs, endMs: (idDay + 1) * dayMs, limit };
    yield* pagesById(time, ({ afterId, endId }) =>
      database
        .em()
        .find(TransactionEntity, { ...where, id: { $gt: afterId, $lt: endId } }, { orderBy: { id: 'asc' }, limit }),
    );
  }
}

/** The first moment of a UTC day. */
const startOf = (day: Temporal.PlainDate): Date => new Date(startOfPeriodMs(day.toString()));

/** The days in their ids, latest first, with how many there are on it and on later ones. */
async function daysWithTransactions(
  database: Pick<ServiceDatabase, 'query'>,
  { tenantId, type, firstDay, lastDay, invoiceMonth }: Narrowing,
): Promise<{ idDay: number; soFar: number }[]> {
  const { rows } = await database.query<{ idDay: number; soFar: number }>({
    text: `
      select id_day as "idDay", (sum(sum(count)) over (order by id_day desc))::float8 as "soFar" from transaction_counts
      where tenant_id = $1 and ($2::smallint is null or type = $2) and ($3::date is null or posted_on >= $3)
        and ($4::date is null or posted_on <= $4) and ($5::date is null or invoice_month = $5)
      group by id_day order by id_day desc`,
    values: [tenantId, type || null, firstDay?.toString(), lastDay?.toString(), invoiceMonth],
  });
  return rows;
}
