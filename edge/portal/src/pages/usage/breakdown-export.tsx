import { useState } from 'react';
import type { Query } from '../../api/client.ts';
import type { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import type { UsageReport } from '../../api/types.ts';
import { type CsvCell, downloadCsv } from '../../format/csv.ts';
import { Button } from '../../ui/button.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { Granularity } from '../keys/analytics/range.ts';
import { measureColumns } from './measures.ts';

const units = { hourly: 'hour', daily: 'day', weekly: 'week', monthly: 'month' } as const satisfies Record<
  Granularity,
  string
>;

const names = {
  model: ['model'],
  api_key: ['api_key_id', 'api_key_name', 'api_key_preview', 'api_key_user_id'],
  endpoint: ['endpoint'],
} as const;

type BreakdownExportProps = {
  groupBy: keyof typeof names;
  granularity: Granularity;
  /** Which usage it is: its days, their time zone and whose it is. */
  query: Query;
};

/** Downloads what each model, key or endpoint used in each day, week or month, with every digit of its cost: for adding up and passing on. */
export function BreakdownExport({ groupBy, granularity, query }: BreakdownExportProps) {
  const api = useApi();
  const toast = useToast();
  const [pending, setPending] = useState(false);
  const columns = ['start', 'end', ...names[groupBy], ...measureColumns];
  const download = async () => {
    setPending(true);
    try {
      const { buckets } = await api.request<UsageReport>('/api/v1/usage/report', {
        query: { ...query, granularity, group_by: groupBy },
      });
      const rows = buckets.flatMap(({ start, end, groups = [] }) =>
        groups.map((group): Record<string, CsvCell> => ({ ...group, start, end })),
      );
      downloadCsv(
        `usage-by-${groupBy.replace('api_', '')}-${units[granularity]}.csv`,
        columns,
        rows.map((row) => columns.map((column) => row[column] ?? null)),
      );
    } catch (error) {
      toast.complain(error as ApiError);
    } finally {
      setPending(false);
    }
  };
  return (
    <Button size="small" icon="download" pending={pending} onClick={() => void download()}>
      {`Export by ${units[granularity]}`}
    </Button>
  );
}
