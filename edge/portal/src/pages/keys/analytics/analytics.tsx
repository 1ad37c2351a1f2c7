import { useMemo } from 'react';
import type { KeyAnalytics, Volume } from '../../../api/types.ts';
import { formatCompact, formatCount, formatDurationMs, formatPercent } from '../../../format/number.ts';
import { localTimeZone } from '../../../format/time.ts';
import { navigate, searchWith, usePlace, useSearchParameter } from '../../../router/router.ts';
import { Status } from '../../../ui/badge.tsx';
import { Card } from '../../../ui/card.tsx';
import { Chart } from '../../../ui/chart.tsx';
import { CsvButton } from '../../../ui/csv-button.tsx';
import { EmptyState } from '../../../ui/empty-state.tsx';
import { Loaded } from '../../../ui/failure.tsx';
import { Select } from '../../../ui/field.tsx';
import { NameParts } from '../../../ui/name-parts.tsx';
import { RangePicker } from '../../../ui/range-picker.tsx';
import { type Column, Table } from '../../../ui/table.tsx';
import { Segments } from '../../../ui/tabs.tsx';
import { Time } from '../../../ui/time.tsx';
import { barOf } from './buckets.ts';
import { Performance } from './performance.tsx';
import {
  clampRange,
  type Granularity,
  granularityNames,
  type Range,
  rangeDaysMax,
  rangeFromSearch,
  today,
} from './range.ts';
import { AnalyticsTiles } from './tiles.tsx';
import { type Analytics as AnalyticsData, measures, useAnalytics } from './use-analytics.ts';

const measureNames = {
  requests: 'Requests',
  total_tokens: 'Tokens',
  input_tokens: 'Input tokens',
  output_tokens: 'Output tokens',
} as const;
type Measure = keyof typeof measureNames;

/** What one key was used for. Volume only, no costs (service.md, Key analytics report). */
export function Analytics({ keyId }: { keyId: string }) {
  const { path, search } = usePlace();
  const range = rangeFromSearch(search);
  const [model, setModel] = useSearchParameter('model', '');
  const [measure, setMeasure] = useSearchParameter('measure', 'requests');
  const analytics = useAnalytics(keyId, range, model);
  const setRange = (next: Range) => {
    const { granularity, start, end } = clampRange(next);
    navigate(path + searchWith({ granularity, start, end }), { replace: true });
  };
  const setGranularity = (granularity: Granularity) => {
    const last = today(granularity);
    const atEnd = range.end >= today(range.granularity) || range.end > last;
    setRange({ granularity, start: range.start, end: atEnd ? last : range.end });
  };
  const models = analytics.data?.report.by_model.map((row) => row.model) ?? [];
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <Segments
          label="Granularity"
          value={range.granularity}
          onChange={(value) => setGranularity(value as Granularity)}
          choices={Object.entries(granularityNames).map(([value, label]) => ({ value, label }))}
        />
        <RangePicker
          range={range}
          today={today(range.granularity)}
          daysMax={rangeDaysMax[range.granularity]}
          presets={[1, 7, 30, 90, 365]}
          onChange={(days) => setRange({ ...range, ...days })}
        />
        <Select
          aria-label="Model"
          value={model}
          onChange={setModel}
          className="max-w-56"
          choices={[
            { value: '', label: 'All models' },
            ...[...new Set(model === '' ? models : [model, ...models])].map((id) => ({ value: id, label: id })),
          ]}
        />
      </div>
      <p className="-mt-2 text-xs text-faint">
        {range.granularity === 'hourly' ? 'Hours in UTC' : `Days in ${localTimeZone()}`} · at most{' '}
        {rangeDaysMax[range.granularity]} days at this granularity
      </p>
      <Loaded of={analytics}>
        {(data) => (
          <Report
            data={data}
            isOld={analytics.isPlaceholderData}
            measure={Object.hasOwn(measureNames, measure) ? (measure as Measure) : 'requests'}
            onMeasure={setMeasure}
          />
        )}
      </Loaded>
    </>
  );
}

const csvColumns = ['bucket_start', ...measures] as const;

type ReportProps = {
  data: AnalyticsData;
  /** The data belong to the previous choice. */
  isOld: boolean;
  measure: Measure;
  onMeasure: (measure: string) => void;
};

function Report({ data: { report, series, granularity }, isOld, measure, onMeasure }: ReportProps) {
  const bars = useMemo(
    () => series.map((point) => barOf(point.bucket_start, point[measure], granularity)),
    [series, measure, granularity],
  );
  return (
    <>
      <AnalyticsTiles totals={report.totals} previous={report.previous_totals} />
      <Card
        title={measureNames[measure]}
        action={
          <div className="flex flex-wrap items-center gap-2">
            <Segments
              label="Measure"
              value={measure}
              onChange={onMeasure}
              choices={Object.entries(measureNames).map(([value, label]) => ({ value, label }))}
            />
            <CsvButton
              label="CSV"
              file={`key-analytics-${granularity}.csv`}
              columns={csvColumns}
              rows={series}
              disabled={isOld}
            />
          </div>
        }
      >
        <Chart label={measureNames[measure]} bars={bars} axisFormat={formatCompact} />
      </Card>
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
        <Card flush title="Usage by model" description="Every model used in the range, whatever the filter above.">
          <Table
            label="Usage by model"
            rows={report.by_model}
            columns={modelColumns(report.by_model)}
            rowKey={(row) => row.model}
            empty={<EmptyState icon="model" title="No models used in this range" />}
          />
        </Card>
        <Performance performance={report.performance} />
      </div>
      <Card flush title="Recent Activity" description="The latest requests, up to 10.">
        <Table
          label="Recent Activity"
          rows={report.recent_activity.slice(0, 10)}
          columns={activityColumns}
          rowKey={(row) => row.id}
          empty={
            <EmptyState icon="pulse" title="No requests yet">
              Requests with this key appear here within two seconds.
            </EmptyState>
          }
        />
      </Card>
    </>
  );
}

function modelColumns(rows: readonly (Volume & { model: string })[]): readonly Column<Volume & { model: string }>[] {
  const all = rows.reduce((sum, row) => sum + row.requests, 0);
  return [
    {
      name: 'Model',
      sortBy: (row) => row.model,
      cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.model}</span>,
    },
    { name: 'Requests', end: true, sortBy: (row) => row.requests, cell: (row) => formatCount(row.requests) },
    {
      name: 'Share',
      end: true,
      sortBy: (row) => row.requests,
      cell: (row) => formatPercent(all === 0 ? 0 : row.requests / all),
    },
    {
      name: 'Input tokens',
      end: true,
      sortBy: (row) => row.input_tokens,
      cell: (row) => formatCount(row.input_tokens),
    },
    {
      name: 'Output tokens',
      end: true,
      sortBy: (row) => row.output_tokens,
      cell: (row) => formatCount(row.output_tokens),
    },
  ];
}

const activityColumns: readonly Column<KeyAnalytics['recent_activity'][number]>[] = [
  { name: 'Time', cell: (row) => <Time value={row.occurred_at} /> },
  { name: 'Model', cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.model}</span> },
  { name: 'Endpoint', cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.endpoint}</span> },
  {
    name: 'Status',
    cell: (row) => (
      <Status wraps tone={row.status === 'Success' ? 'good' : 'danger'}>
        <NameParts name={row.status} />
      </Status>
    ),
  },
  { name: 'Tokens', end: true, cell: (row) => formatCount(row.total_tokens) },
  { name: 'Latency', end: true, cell: (row) => formatDurationMs(row.latency_ms) },
];
