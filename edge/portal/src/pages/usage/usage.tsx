import { useMemo } from 'react';
import { useGet, useIsAdmin, useWholeList } from '../../api/hooks.ts';
import { localToday } from '../../api/server-clock.ts';
import type { ApiKey, Measures, TenantBreakdown, UsageReport, UsageSummary } from '../../api/types.ts';
import { addDays, isDay, localTimeZone } from '../../format/time.ts';
import { navigate, searchWith, usePlace, useSearchParameter } from '../../router/router.ts';
import { Card } from '../../ui/card.tsx';
import { Chart, chartSkeleton } from '../../ui/chart.tsx';
import { CsvButton } from '../../ui/csv-button.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { type DayRange, RangePicker } from '../../ui/range-picker.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { Segments, Tabs } from '../../ui/tabs.tsx';
import { barOf } from '../keys/analytics/buckets.ts';
import { clampRange, type Granularity, rangeDaysMax } from '../keys/analytics/range.ts';
import { BreakdownTable } from './breakdown-table.tsx';
import { ExportButton } from './export-button.tsx';
import { History } from './history.tsx';
import { isMeasure, measureColumns, measures } from './measures.ts';
import { SummaryTiles } from './summary-tiles.tsx';
import { UserTable } from './user-table.tsx';

export function Usage() {
  const isAdmin = useIsAdmin();
  const { path, search } = usePlace();
  const [wanted, setGranularity] = useSearchParameter('granularity', 'daily');
  const granularity = wanted === 'weekly' || wanted === 'monthly' ? wanted : 'daily';
  const range = useMemo(() => rangeOf(search, granularity), [search, granularity]);
  const [wantedScope, setScope] = useSearchParameter('scope', '');
  const scope = isAdmin && wantedScope === 'tenant' ? 'tenant' : '';
  const setRange = ({ start, end }: DayRange) =>
    navigate(path + searchWith({ start, end, page: null }), { replace: true });
  return (
    <Page
      title="Usage"
      description={scope === 'tenant' ? 'By everyone in your organization.' : 'By your own keys and in the playground.'}
      actions={
        <>
          {isAdmin && (
            <Segments
              label="Whose usage"
              value={scope}
              onChange={setScope}
              choices={[
                { value: '', label: 'Mine' },
                { value: 'tenant', label: 'Organization' },
              ]}
            />
          )}
          {isAdmin && <ExportButton range={range} scope={scope === 'tenant' ? 'tenant' : 'own'} />}
        </>
      }
    >
      <div className="flex flex-wrap items-center gap-2">
        <Segments
          label="Granularity"
          value={granularity}
          onChange={setGranularity}
          choices={[
            { value: 'daily', label: 'Daily' },
            { value: 'weekly', label: 'Weekly' },
            { value: 'monthly', label: 'Monthly' },
          ]}
        />
        <RangePicker
          range={range}
          today={localToday()}
          daysMax={rangeDaysMax[granularity]}
          presets={[7, 30, 90, 365]}
          onChange={setRange}
        />
      </div>
      <p className="-mt-2 text-xs text-faint">
        Days in {localTimeZone()}
        {localTimeZone() !== 'UTC' && ' (invoices use UTC)'} · at most {rangeDaysMax[granularity]} days at this
        granularity
      </p>
      {/* The keys keep one scope's figures from being shown as a placeholder for the other's. */}
      <Report key={`report ${scope}`} range={range} scope={scope} granularity={granularity} />
      <Breakdown key={`breakdown ${scope}`} range={range} scope={scope} isAdmin={isAdmin} />
    </Page>
  );
}

/** The range in the address, shortened to what the granularity allows by moving its start. */
function rangeOf(search: string, granularity: Granularity): DayRange {
  const parameters = new URLSearchParams(search);
  const today = localToday();
  const start = parameters.get('start') ?? '';
  const end = parameters.get('end') ?? '';
  return start <= end && isDay(start) && isDay(end)
    ? clampRange({ granularity, start, end })
    : { start: addDays(today, -29), end: today };
}

function Report({ range, scope, granularity }: { range: DayRange; scope: string; granularity: string }) {
  const [name, setName] = useSearchParameter('measure', 'cost_usd');
  const measure = isMeasure(name) ? name : 'cost_usd';
  const report = useGet<UsageReport>('/usage/report', {
    start_date: range.start,
    end_date: range.end,
    granularity,
    timezone: localTimeZone(),
    scope,
  });
  // Named after the granularity of the answer, which may still be the previous one.
  const bars = useMemo(
    () => report.data?.buckets.map((bucket) => barOf(bucket.start, bucket[measure], report.data.granularity)) ?? [],
    [report.data, measure],
  );
  return (
    <Card
      title={measures[measure].label}
      action={
        <div className="flex flex-wrap items-center gap-2">
          <Segments
            label="Measure"
            value={measure}
            onChange={setName}
            choices={Object.entries(measures).map(([value, { label }]) => ({ value, label }))}
          />
          <CsvButton
            label="CSV"
            file={`usage-${granularity}.csv`}
            columns={['start', 'end', ...measureColumns]}
            rows={report.data?.buckets ?? []}
            disabled={report.isPlaceholderData}
          />
        </div>
      }
    >
      <Loaded of={report} skeleton={chartSkeleton}>
        {() => (
          <Chart
            label={measures[measure].label}
            bars={bars}
            format={measures[measure].format}
            axisFormat={measures[measure].axis}
          />
        )}
      </Loaded>
    </Card>
  );
}

function Breakdown({ range, scope, isAdmin }: { range: DayRange; scope: string; isAdmin: boolean }) {
  const query = { start_date: range.start, end_date: range.end, timezone: localTimeZone() };
  const [tab, setTab] = useSearchParameter('by', 'model');
  const summary = useGet<UsageSummary>('/usage/summary', { ...query, scope });
  const showsOwners = scope === 'tenant' && tab === 'key';
  const users = useGet<TenantBreakdown>('/usage/tenant-breakdown', query, {
    enabled: isAdmin && (tab === 'user' || showsOwners),
  });
  const emails = new Map(users.data?.users.map(({ user_id, email }) => [user_id, email]));
  const ownKeys = useWholeList<ApiKey>('/api-keys');
  const usedKeys = new Map(summary.data?.by_api_key.map((row) => [row.api_key_id, row]));
  const keyName = (id: string | null): string => {
    if (id === null || id === '') return 'Playground and other sessions';
    const used = usedKeys.get(id);
    if (used?.api_key_deleted === true) return `${used.api_key_name} (deleted)`;
    // A key without usage in this range may still be the one that the requests are filtered by.
    return used?.api_key_name ?? ownKeys.data?.find((key) => key.id === id)?.name ?? `Key …${id.slice(-8)}`;
  };
  const keysByName = Map.groupBy(usedKeys.keys(), keyName);
  /** As `keyName`, but keys of one name, as teammates may have, are told apart. */
  const distinctKeyName = (id: string | null): string => {
    const name = keyName(id);
    const preview = usedKeys.get(id)?.api_key_preview;
    return preview && keysByName.get(name)!.length > 1 ? `${name} (${preview})` : name;
  };
  const rows = <Row extends Measures>(
    list: readonly Row[],
    id: (row: Row) => string,
    nameOf: typeof keyName = String,
  ) => list.map((row) => ({ ...row, id: id(row), name: nameOf(id(row)) }));
  return (
    <>
      <Loaded of={summary} skeleton={<Skeleton className="h-53 w-full rounded-xl lg:h-25" />}>
        {(data) => <SummaryTiles summary={data} />}
      </Loaded>
      <Tabs
        label="Breakdown"
        value={tab}
        onChange={setTab}
        tabs={[
          {
            value: 'model',
            label: 'By model',
            content: (
              <Card flush>
                <Loaded of={summary}>
                  {(data) => <BreakdownTable what="Model" mono rows={rows(data.by_model, (row) => row.model)} />}
                </Loaded>
              </Card>
            ),
          },
          {
            value: 'key',
            label: 'By key',
            content: (
              <Card flush>
                <Loaded of={summary}>
                  {(data) => (
                    <BreakdownTable
                      what="Key"
                      rows={rows(data.by_api_key, (row) => row.api_key_id ?? '', keyName)}
                      href={({ api_key_id }) => api_key_id && `/keys/${api_key_id}`}
                      detail={({ api_key_preview, api_key_user_id }) =>
                        api_key_preview !== null && (
                          <KeyDetail
                            preview={api_key_preview}
                            owner={showsOwners ? emails.get(api_key_user_id ?? '') : undefined}
                          />
                        )
                      }
                    />
                  )}
                </Loaded>
              </Card>
            ),
          },
          {
            value: 'endpoint',
            label: 'By endpoint',
            content: (
              <Card flush>
                <Loaded of={summary}>
                  {(data) => (
                    <BreakdownTable what="Endpoint" mono rows={rows(data.by_endpoint, (row) => row.endpoint)} />
                  )}
                </Loaded>
              </Card>
            ),
          },
          ...(isAdmin
            ? [
                {
                  value: 'user',
                  label: 'By user',
                  content: (
                    <Card flush title="Everyone in your organization">
                      <Loaded of={users}>{(data) => <UserTable users={data.users} />}</Loaded>
                    </Card>
                  ),
                },
              ]
            : []),
          {
            value: 'request',
            label: 'Requests',
            content: <History range={range} scope={scope} summary={summary.data} keyName={distinctKeyName} />,
          },
        ]}
      />
    </>
  );
}

/** What tells a key from others of its name: its preview and, once known, its owner's address. */
function KeyDetail({ preview, owner }: { preview: string; owner: string | null | undefined }) {
  return (
    <span className="block text-xs text-faint wrap-anywhere">
      <code className="font-mono">{preview}</code>
      {owner && (
        <>
          {' '}
          · <Email address={owner} />
        </>
      )}
    </span>
  );
}
