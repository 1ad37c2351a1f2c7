import type { ReactNode } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { List, Transaction, UsageEvent } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { usePageParameter, useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card } from '../../ui/card.tsx';
import { CsvButton } from '../../ui/csv-button.tsx';
import { DayFilter, useDays } from '../../ui/day-filter.tsx';
import { DownloadButton } from '../../ui/download-button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

/** The query of a page with tabs that shows only the charge of one call. */
export const chargeQuery = ({ id }: Pick<UsageEvent, 'id'>): string => `?tab=transactions&call=${id}`;

export type CallHref = (eventId: string) => string;

/** A call of the reader's own organization. */
export const ownCall: CallHref = (eventId) => `/usage?by=request&scope=tenant&search=${eventId}`;

type TransactionsProps = {
  /** Where the API has the list. */
  path: string;
  /** Whether it can be filtered by type and days, or to the charge of one call, and exported whole; else the page shown can be saved. */
  narrowed?: boolean;
  /** Where a charge leads: to its call, by the id of its usage event. */
  callHref: CallHref;
  /** What can be done with a transaction. */
  action?: (row: Transaction) => ReactNode;
};

/** Movements of money: those of a whole organization, or of one invoice. */
export function Transactions({ path, narrowed = true, callHref, action }: TransactionsProps) {
  const [page, setPage] = usePageParameter();
  const [type, setType] = useSearchParameter('type', '');
  const [days, setDays] = useDays();
  const [call, setCall] = useSearchParameter('call', '');
  const filters = call === '' ? { type, start_date: days.start, end_date: days.end } : { usage_event_id: call };
  const query = narrowed ? filters : {};
  const transactions = useGet<List<Transaction>>(path, { page, limit: 25, ...query });
  return (
    <Card
      flush
      title="Transactions"
      action={
        <div className="flex flex-wrap items-center gap-2">
          {narrowed &&
            (call === '' ? (
              <>
                <DayFilter days={days} onChange={setDays} />
                <Select aria-label="Type" value={type} onChange={setType} choices={typeChoices} />
              </>
            ) : (
              <Narrowed onAll={() => setCall('')}>Only the charge of one call</Narrowed>
            ))}
          {narrowed && call === '' ? (
            <DownloadButton path={`${path}/export`} query={query} size="small" fileName="transactions.csv">
              Export all
            </DownloadButton>
          ) : (
            <CsvButton
              file="transactions.csv"
              columns={csvColumns}
              rows={transactions.data?.data ?? []}
              disabled={transactions.isPlaceholderData}
            />
          )}
        </div>
      }
    >
      <Loaded of={transactions}>
        {(list) => (
          <PagedTable
            label="Transactions"
            list={list}
            onPage={setPage}
            columns={[...columnsOf(callHref), ...(action === undefined ? [] : [{ name: '', end: true, cell: action }])]}
            rowKey={(row) => row.id}
            empty={
              narrowed && call !== '' ? (
                <EmptyState icon="search" title="Nothing was charged for this call">
                  A call is charged within seconds of its end, if it cost something.
                </EmptyState>
              ) : Object.values(query).every((value) => value === '') ? (
                <EmptyState icon="card" title="No transactions yet">
                  Credit, paid invoices and every call that costs something appear here.
                </EmptyState>
              ) : (
                <EmptyState icon="search" title="No transactions match" />
              )
            }
          />
        )}
      </Loaded>
    </Card>
  );
}

const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** A type to filter by: nobody would find a payment among thousands of calls. */
const typeChoices = [
  { value: '', label: 'All types' },
  ...['usage', 'grant', 'purchase', 'expiry', 'refund', 'adjustment'].map((value) => ({
    value,
    label: capitalized(value),
  })),
];

const csvColumns = [
  'id',
  'occurred_at',
  'type',
  'description',
  'amount_usd',
  'balance_after_usd',
  'invoice_id',
  'usage_event_id',
  'reverses_id',
] as const;

/** Charges made by older versions of the gateway do not name their model. */
const unnamed = ({ type }: Transaction): string => (type === 'usage' ? 'Model call' : '—');

const columnsOf = (callHref: CallHref): readonly Column<Transaction>[] => [
  { name: 'Time', sortBy: (row) => row.occurred_at, cell: (row) => <Time value={row.occurred_at} /> },
  { name: 'Type', sortBy: (row) => row.type, cell: (row) => <Badge>{capitalized(row.type)}</Badge> },
  {
    name: 'Description',
    cell: (row) =>
      row.usage_event_id !== null ? (
        <Link
          href={callHref(row.usage_event_id)}
          className="text-soft wrap-anywhere hover:underline"
          title="Show its call"
        >
          {row.description || unnamed(row)}
        </Link>
      ) : (
        <span className="text-soft wrap-anywhere">{row.description || unnamed(row)}</span>
      ),
  },
  { name: 'Amount', usd: (row) => row.amount_usd, exact: true },
  { name: 'Credit left', usd: (row) => row.balance_after_usd, exact: true },
];
