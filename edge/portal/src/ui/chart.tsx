import { lazy, Suspense } from 'react';
import { formatCount } from '../format/number.ts';
import { Skeleton } from './skeleton.tsx';

/** If the chart cannot be fetched or drawn, its table remains, and the page still works. */
const BarChart = lazy(async () => {
  try {
    return { default: (await import('./bar-chart.tsx')).BarChart };
  } catch {
    return { default: () => <p className="py-8 text-center text-sm text-faint">The chart could not be drawn.</p> };
  }
});

export type Bar = {
  /** Shown below the axis. */
  label: string;
  /** Shown in full on hover and in the table. */
  title: string;
  value: number;
};

type ChartProps = {
  label: string;
  bars: readonly Bar[];
  format?: (value: number) => string;
  axisFormat?: (value: number) => string;
};

/** As high as a chart with what is below it. */
export const chartSkeleton = <Skeleton className="h-70.5 w-full rounded-lg" />;

/** A series as bars, and as a table for those who want the numbers or cannot see the bars. */
export function Chart({ label, bars, format = formatCount, axisFormat = format }: ChartProps) {
  return (
    <div className="min-w-0">
      {bars.every(({ value }) => value === 0) ? (
        <p className="grid h-64 place-items-center text-sm text-faint">Nothing in this range.</p>
      ) : (
        <Suspense fallback={<Skeleton className="h-64 w-full rounded-lg" />}>
          <BarChart label={label} bars={bars} format={format} axisFormat={axisFormat} />
        </Suspense>
      )}
      <details className="mt-2 text-sm">
        <summary className="inline-block text-xs text-faint hover:text-ink print:hidden">Show as a table</summary>
        <div className="mt-2 max-h-64 overflow-y-auto rounded-lg border border-line">
          <table className="w-full text-sm">
            <caption className="sr-only">{label}</caption>
            <tbody className="divide-y divide-line">
              {bars.map((bar) => (
                <tr key={bar.title}>
                  <th scope="row" className="px-3 py-1 text-left font-normal text-soft">
                    {bar.title}
                  </th>
                  <td className="px-3 py-1 text-right tabular">{format(bar.value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  );
}
