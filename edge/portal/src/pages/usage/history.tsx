import { useState } from 'react';
import { useClaims, useGet, useIsAdmin } from '../../api/hooks.ts';
import type { KeyAnalytics, List, UsageEvent, UsageSummary } from '../../api/types.ts';
import { useEmails } from '../../api/use-emails.ts';
import { formatCount, formatDurationMs } from '../../format/number.ts';
import { usePageParameter } from '../../router/router.ts';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CsvButton } from '../../ui/csv-button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { MonoName } from '../../ui/name-parts.tsx';
import { Pager } from '../../ui/pagination.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { chargeQuery } from '../billing/transactions.tsx';
import { RequestDialog, RequestStatus, RequestTime } from './request-dialog.tsx';
import { lookUp, RequestFilters, useRequestFilters } from './request-filters.tsx';

const rowsPerPage = 25;
const csvColumns = [
  'occurred_at',
  'request_id',
  'model',
  'endpoint',
  'api_key_id',
  'success',
  'status',
  'error_code',
  'input_tokens',
  'output_tokens',
  'latency_ms',
  'cost_usd',
  'api_key_name',
  'api_key_preview',
] as const;

type HistoryProps = {
  range: DayRange;
  /** In which its days begin. */
  timezone: string;
  scope: string;
  /** The summary of the range: it has the values to filter by. */
  summary: UsageSummary | undefined;
  /** What a key with usage in the range is called on the page. */
  keyName: (id: string | null) => string;
  /** The summary's rows by the ids of their keys. */
  usedKeys: ReadonlyMap<string | null, UsageSummary['by_api_key'][number]>;
  /** The addresses by their ids of those with usage in the range, if the requests are the organization's. */
  emails: ReadonlyMap<string, string | null> | null;
};

/** Individual requests, newest first. */
export function History({
  range,
  timezone,
  scope,
  summary,
  keyName: nameOfUsed,
  usedKeys,
  emails: ofUsers,
}: HistoryProps) {
  const [page, setPage] = usePageParameter();
  const { filters, isFiltered, query } = useRequestFilters(scope);
  const requestId = useSearch();
  const [open, setOpen] = useState<UsageEvent | null>(null);
  const isAdmin = useIsAdmin();
  const { userId } = useClaims();
  // One that is looked up may be of any day, model and key, so that the filters are off.
  const isLookUp = requestId !== '';
  const events = useGet<List<UsageEvent>>('/usage/history', {
    ...(isLookUp ? lookUp(requestId) : { start_date: range.start, end_date: range.end, timezone, ...query }),
    limit: rowsPerPage,
    offset: (page - 1) * rowsPerPage,
    scope,
  });
  const named = isLookUp ? events.data?.data[0]?.api_key_id : filters.key.value;
  const emails = useAddresses(ofUsers, isLookUp ? (events.data?.data[0]?.user_id ?? '') : filters.user.value);
  const { keyName, unusedKey, isPending } = useKeyNames({ id: named || '', nameOfUsed, usedKeys, summary });
  return (
    <Card
      flush
      title="Requests"
      description="Calls that reached a model. One that was refused before, for its key, its model or a limit, is not listed; its answer says why."
      action={
        <div className="flex flex-wrap items-center gap-2">
          <SearchBox label="Request id" />
          <RequestFilters filters={filters} summary={summary} keyName={keyName} emails={emails} off={isLookUp} />
          <CsvButton
            file="requests.csv"
            columns={csvColumns}
            rows={(events.data?.data ?? []).map((event) => {
              const { api_key_name, api_key_preview } = usedKeys.get(event.api_key_id) ?? {};
              const { key_name = null, key_preview = null } = unusedKey(event.api_key_id) ?? {};
              return {
                ...event,
                api_key_name: api_key_name ?? key_name,
                api_key_preview: api_key_preview ?? key_preview,
              };
            })}
            // Until then it would lack the names of keys.
            disabled={events.isPlaceholderData || summary === undefined || isPending}
          />
        </div>
      }
    >
      <Loaded of={events}>
        {(list) => (
          <>
            <Table
              label="Requests"
              rows={list.data}
              columns={columnsOf(keyName, setOpen)}
              rowKey={(event) => event.id}
              empty={<NoRequests isLookUp={isLookUp} isFiltered={isFiltered} scope={scope} />}
              pagination={list.pagination}
            />
            <Pager pagination={{ ...list.pagination, page }} onPage={setPage} />
          </>
        )}
      </Loaded>
      {open !== null && (
        <RequestDialog
          event={open}
          by={keyName(open.api_key_id)}
          facts={emails === null ? [] : [['User', emails.get(open.user_id) || open.user_id]]}
          jobHref={open.user_id === userId ? (id) => `/jobs/${id}` : undefined}
          action={
            isAdmin && open.cost_usd > 0 ? (
              <ButtonLink href={`/billing${chargeQuery(open)}`}>Show charge</ButtonLink>
            ) : undefined
          }
          onClose={() => setOpen(null)}
        />
      )}
    </Card>
  );
}

/** The columns of a table of requests; the time of each opens it. */
const columnsOf = (
  keyName: (id: string | null) => string,
  onOpen: (event: UsageEvent) => void,
): readonly Column<UsageEvent>[] => [
  {
    name: 'Time',
    sortBy: (event) => event.occurred_at,
    cell: (event) => <RequestTime event={event} onOpen={() => onOpen(event)} />,
  },
  { name: 'Model', cell: (event) => <MonoName name={event.model} /> },
  { name: 'Endpoint', cell: (event) => <MonoName name={event.endpoint} /> },
  { name: 'Key', cell: (event) => <span className="block min-w-20 wrap-anywhere">{keyName(event.api_key_id)}</span> },
  {
    name: 'Status',
    cell: (event) => <RequestStatus event={event} />,
  },
  {
    name: 'Tokens',
    end: true,
    sortBy: (event) => event.total_tokens,
    cell: (event) => formatCount(event.total_tokens),
  },
  {
    name: 'Latency',
    end: true,
    sortBy: (event) => event.latency_ms,
    cell: (event) => formatDurationMs(event.latency_ms),
  },
  { name: 'Cost', usd: (event) => event.cost_usd },
];

type UsedKeys = Pick<HistoryProps, 'summary' | 'usedKeys'> & {
  /** The key of the request that is looked up, or by which all are filtered: it may have no usage in this range. Empty: none. */
  id: string;
  nameOfUsed: HistoryProps['keyName'];
};

/** What the keys of the requests are called, also the one that has no usage in this range. */
function useKeyNames({ id: asked, nameOfUsed, usedKeys, summary }: UsedKeys) {
  const isUnused = asked !== '' && summary !== undefined && !usedKeys.has(asked);
  const other = useGet<KeyAnalytics>(`/usage/api-keys/${encodeURIComponent(asked)}/analytics`, undefined, {
    enabled: isUnused,
    keepPrevious: false,
  });
  const unusedKey = (id: string | null) => (isUnused && id === asked ? other.data : undefined);
  const keyName = (id: string | null): string => {
    if (id === null) return 'Session';
    const { key_name = null, key_deleted } = unusedKey(id) ?? {};
    if (key_name === null) return nameOfUsed(id);
    return key_deleted ? `${key_name} (deleted)` : key_name;
  };
  return { keyName, unusedKey, isPending: isUnused && other.isPending };
}

/** Those addresses, and that of the user without usage in this range whose requests are shown alone, or one of whose is looked up. */
function useAddresses(ofUsers: HistoryProps['emails'], id: string): HistoryProps['emails'] {
  const other = useEmails(ofUsers === null || id === '' || ofUsers.has(id) ? [] : [id], '/members');
  return ofUsers && new Map([...ofUsers, ...other]);
}

type NoRequestsProps = { isLookUp: boolean; isFiltered: boolean; scope: string };

/** Why a list of requests is empty. */
function NoRequests({ isLookUp, isFiltered, scope }: NoRequestsProps) {
  if (isLookUp) {
    return (
      <EmptyState icon="search" title="No request has this id">
        {scope === 'tenant' ? 'Searched: everyone in your organization.' : 'Searched: your own requests.'} A request
        that was refused before it reached a model is not listed.
      </EmptyState>
    );
  }
  if (isFiltered) return <EmptyState icon="search" title="No requests match these filters" />;
  return (
    <EmptyState icon="pulse" title="No requests in this range">
      Each call that reaches a model, by a key or from the playground, appears here within two seconds.
    </EmptyState>
  );
}
