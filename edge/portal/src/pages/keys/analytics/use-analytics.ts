import { type UseQueryResult, useQueries } from '@tanstack/react-query';
import type { Api } from '../../../api/client.ts';
import type { ApiError } from '../../../api/error.ts';
import { askAgainMs, useApi, useGet } from '../../../api/hooks.ts';
import type { KeyAnalytics, Volume } from '../../../api/types.ts';
import { localTimeZone } from '../../../format/time.ts';
import { usePlace, useSearchParameter } from '../../../router/router.ts';
import { dailyChunks, type Granularity, type Range, rangeFromSearch } from './range.ts';

type SeriesPoint = Volume & { bucket_start: string };
/** `granularity` is that of the series, which may still be the previous one. */
export type Analytics = { report: KeyAnalytics; series: SeriesPoint[]; granularity: Granularity };
type Answer = {
  data: Analytics | undefined;
  error: ApiError | null;
  refetch: () => unknown;
  isPlaceholderData: boolean;
};

/** The report of a key for what the address chooses, as the page's analytics read it; it also says whose key it is. */
export function useReport(keyId: string): UseQueryResult<KeyAnalytics, ApiError> {
  const { search } = usePlace();
  const [model] = useSearchParameter('model', '');
  return useReportOf(keyId, rangeFromSearch(search), model);
}

const pathOf = (keyId: string): string => `/usage/api-keys/${keyId}/analytics`;

const useReportOf = (keyId: string, range: Range, model: string) =>
  useGet<KeyAnalytics>(pathOf(keyId), {
    granularity: range.granularity === 'monthly' ? 'weekly' : range.granularity,
    ...queryOf(range, model, range.granularity !== 'hourly'),
  });

/**
 * The analytics of one key. The API has no monthly granularity. For months, a weekly report of the range gives the totals and the
 * breakdown, and daily reports of up to 90 days each give a series, which is grouped by the user's local months.
 */
export function useAnalytics(keyId: string, range: Range, model: string): Answer {
  const api = useApi();
  const path = pathOf(keyId);
  const monthly = range.granularity === 'monthly';
  const report = useReportOf(keyId, range, model);
  const days = useQueries({
    queries: (monthly ? dailyChunks(range) : []).map((chunk) => {
      const query = { granularity: 'daily', ...queryOf(chunk, model, true) };
      return {
        queryKey: [path, query],
        queryFn: ({ signal }: { signal: AbortSignal }) => read(api, path, query, signal),
        refetchInterval: ({ state }: { state: { error: Error | null } }) => askAgainMs(state.error),
      };
    }),
  });
  const failed = days.find(({ error }) => error !== null);
  const refetch = () => {
    void report.refetch();
    for (const day of days) void day.refetch();
  };
  const error = report.error ?? (failed?.error as ApiError | null | undefined) ?? null;
  if (report.data === undefined || days.some(({ data }) => data === undefined)) {
    return { data: undefined, error, refetch, isPlaceholderData: false };
  }
  const series = monthly ? groupByLocalMonth(days.flatMap(({ data }) => data?.series ?? [])) : report.data.series;
  const data: Analytics = { report: report.data, series, granularity: monthly ? 'monthly' : report.data.granularity };
  return { data, error, refetch, isPlaceholderData: report.isPlaceholderData };
}

function queryOf(range: { start: string; end: string }, model: string, zoned: boolean) {
  return {
    start_date: range.start,
    end_date: range.end,
    ...(zoned ? { timezone: localTimeZone() } : {}),
    ...(model === '' ? {} : { model_name: model }),
  };
}

const read = (api: Api, path: string, query: Record<string, string>, signal: AbortSignal) =>
  api.request<KeyAnalytics>(`/api/v1${path}`, { query, signal });

/** The counts in a bucket. */
export const measures = [
  'requests',
  'successful_requests',
  'failed_requests',
  'total_tokens',
  'input_tokens',
  'output_tokens',
  'cached_input_tokens',
] as const;

/** Adds up days by their calendar month in the browser's time zone. */
function groupByLocalMonth(days: readonly SeriesPoint[]): SeriesPoint[] {
  const months = new Map<string, SeriesPoint>();
  for (const day of days) {
    const date = new Date(day.bucket_start);
    const key = `${date.getFullYear()}-${date.getMonth()}`;
    const month = months.get(key);
    if (month === undefined) {
      months.set(key, { ...day, bucket_start: new Date(date.getFullYear(), date.getMonth(), 1).toISOString() });
      continue;
    }
    for (const measure of measures) month[measure] += day[measure];
  }
  return [...months.values()];
}
