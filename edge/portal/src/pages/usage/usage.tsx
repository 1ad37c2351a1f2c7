import { useMemo } from 'react';
import { useGet, useIsAdmin } from '../../api/hooks.ts';
import { localToday, utcToday } from '../../api/server-clock.ts';
import type { UsageReport } from '../../api/types.ts';
import { addDays, daysBetween, isDay, localTimeZone } from '../../format/time.ts';
import { navigate, searchWith, usePlace, useSearchParameter } from '../../router/router.ts';
import { Card } from '../../ui/card.tsx';
import { Chart, chartSkeleton } from '../../ui/chart.tsx';
import { CsvButton } from '../../ui/csv-button.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { type DayRange, RangePicker } from '../../ui/range-picker.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { barOf } from '../keys/analytics/buckets.ts';
import { clampRange, type Granularity, rangeDaysMax } from '../keys/analytics/range.ts';
import { Breakdown } from './breakdown.tsx';
import { ExportButton } from './export-button.tsx';
import { isMeasure, measureColumns, measures } from './measures.ts';

export function Usage() {
  const isAdmin = useIsAdmin();
  const { path, search } = usePlace();
  const [wanted, setGranularity] = useSearchParameter('granularity', 'daily');
  const granularity = wanted === 'weekly' || wanted === 'monthly' ? wanted : 'daily';
  const [wantedZone] = useSearchParameter('zone', '');
  const timezone = wantedZone === 'UTC' ? 'UTC' : localTimeZone();
  const today = timezone === 'UTC' ? utcToday() : localToday();
  const range = useMemo(() => rangeOf(search, granularity, today), [search, granularity, today]);
  const [wantedScope, setScope] = useSearchParameter('scope', '');
  const scope = isAdmin && wantedScope === 'tenant' ? 'tenant' : '';
  const setRange = ({ start, end }: DayRange) =>
    navigate(path + searchWith({ start, end, page: null }), { replace: true });
  // A range that ends today still does where today is another day.
  const setZone = (zone: 'UTC' | null) => {
    const last = zone === 'UTC' ? utcToday() : localToday();
    const isChosen = new URLSearchParams(search).has('end');
    const moved = isChosen && (range.end >= today || range.end > last) ? daysBetween(range.end, last) - 1 : 0;
    const days = { start: addDays(range.start, moved), end: addDays(range.end, moved) };
    navigate(path + searchWith({ zone, page: null, ...(isChosen && days) }), { replace: true });
  };
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
          {isAdmin && <ExportButton range={range} timezone={timezone} scope={scope === 'tenant' ? 'tenant' : 'own'} />}
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
          today={today}
          daysMax={rangeDaysMax[granularity]}
          presets={[7, 30, 90, 365]}
          onChange={setRange}
        />
      </div>
      <p className="-mt-2 text-xs text-faint">
        Days in {timezone}
        {localTimeZone() !== 'UTC' && (
          <span className="print:hidden">
            {' '}
            (
            <button
              type="button"
              className="underline hover:text-ink"
              onClick={() => setZone(timezone === 'UTC' ? null : 'UTC')}
            >
              {timezone === 'UTC' ? `use ${localTimeZone()}` : 'use UTC, as invoices do'}
            </button>
            )
          </span>
        )}{' '}
        · at most {rangeDaysMax[granularity]} days at this granularity
      </p>
      {/* The keys keep one scope's figures from being shown as a placeholder for the other's. */}
      <Report key={`report ${scope}`} {...{ range, timezone, scope, granularity }} />
      <Breakdown key={`breakdown ${scope}`} {...{ range, timezone, scope, granularity, isAdmin }} />
    </Page>
  );
}

/** The range in the address, shortened to what the granularity allows by moving its start. */
function rangeOf(search: string, granularity: Granularity, today: string): DayRange {
  const parameters = new URLSearchParams(search);
  const start = parameters.get('start') ?? '';
  const end = parameters.get('end') ?? '';
  return start <= end && isDay(start) && isDay(end)
    ? clampRange({ granularity, start, end })
    : { start: addDays(today, -29), end: today };
}

type ReportProps = { range: DayRange; timezone: string; scope: string; granularity: string };

function Report({ range, timezone, scope, granularity }: ReportProps) {
  const [name, setName] = useSearchParameter('measure', 'cost_usd');
  const measure = isMeasure(name) ? name : 'cost_usd';
  const report = useGet<UsageReport>('/usage/report', {
    start_date: range.start,
    end_date: range.end,
    granularity,
    timezone,
    scope,
  });
  // Named after the granularity and time zone of the answer, which may still be the previous one.
  const bars = useMemo(
    () =>
      report.data?.buckets.map(({ start, [measure]: value }) =>
        barOf(start, value, report.data.granularity, report.data.timezone),
      ) ?? [],
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
