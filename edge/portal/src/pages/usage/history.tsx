import { useGet } from '../../api/hooks.ts';
import type { List, UsageEvent } from '../../api/types.ts';
import { formatCount, formatDurationMs } from '../../format/number.ts';
import { localTimeZone } from '../../format/time.ts';
import { usePageParameter } from '../../router/router.ts';
import { Status } from '../../ui/badge.tsx';
import { Card } from '../../ui/card.tsx';
import { CsvButton } from '../../ui/csv-button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Money } from '../../ui/money.tsx';
import { Pager } from '../../ui/pagination.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

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
] as const;

/** Single requests, newest first. */
export function History({
  range,
  scope,
  keyName,
}: {
  range: DayRange;
  scope: string;
  keyName: (id: string | null) => string;
}) {
  const [page, setPage] = usePageParameter();
  const events = useGet<List<UsageEvent>>('/usage/history', {
    start_date: range.start,
    end_date: range.end,
    timezone: localTimeZone(),
    limit: rowsPerPage,
    offset: (page - 1) * rowsPerPage,
    scope,
  });
  const columns: readonly Column<UsageEvent>[] = [
    { name: 'Time', cell: (event) => <Time value={event.occurred_at} /> },
    { name: 'Model', cell: (event) => <span className="font-mono text-xs wrap-anywhere">{event.model}</span> },
    {
      name: 'Endpoint',
      cell: (event) => <span className="font-mono text-xs whitespace-nowrap">{event.endpoint}</span>,
    },
    { name: 'Key', cell: (event) => <span className="wrap-anywhere">{keyName(event.api_key_id)}</span> },
    {
      name: 'Status',
      cell: (event) => (
        <span title={`Request ${event.request_id}`}>
          <Status tone={event.success ? 'good' : 'danger'}>
            {event.success ? 'Success' : (event.error_code ?? 'Failed')}
          </Status>
        </span>
      ),
    },
    { name: 'Tokens', end: true, cell: (event) => formatCount(event.total_tokens) },
    { name: 'Latency', end: true, cell: (event) => formatDurationMs(event.latency_ms) },
    { name: 'Cost', end: true, cell: (event) => <Money usd={event.cost_usd} /> },
  ];
  return (
    <Loaded of={events}>
      {(list) => (
        <Card flush title="Requests" action={<CsvButton file="requests.csv" columns={csvColumns} rows={list.data} />}>
          <Table
            label="Requests"
            rows={list.data}
            columns={columns}
            rowKey={(event) => event.id}
            empty={
              <EmptyState icon="pulse" title="No requests in this range">
                Each call of a key or of the playground appears here within two seconds.
              </EmptyState>
            }
            pagination={list.pagination}
          />
          <Pager pagination={{ ...list.pagination, page }} onPage={setPage} />
        </Card>
      )}
    </Loaded>
  );
}
