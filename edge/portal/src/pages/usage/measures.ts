import type { Measures } from '../../api/types.ts';
import { formatCompact, formatCount, formatUsd, formatUsdCompact } from '../../format/number.ts';

type MeasureName = 'cost_usd' | 'requests' | 'total_tokens' | 'input_tokens' | 'output_tokens';

export const measures: Readonly<
  Record<MeasureName, { label: string; format: (value: number) => string; axis: (value: number) => string }>
> = {
  cost_usd: { label: 'Cost', format: formatUsd, axis: formatUsdCompact },
  requests: { label: 'Requests', format: formatCount, axis: formatCompact },
  total_tokens: { label: 'Tokens', format: formatCount, axis: formatCompact },
  input_tokens: { label: 'Input tokens', format: formatCount, axis: formatCompact },
  output_tokens: { label: 'Output tokens', format: formatCount, axis: formatCompact },
};

export const isMeasure = (name: string): name is MeasureName => Object.hasOwn(measures, name);

export const measureColumns = [
  'requests',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'cost_usd',
] as const satisfies readonly (keyof Measures)[];
