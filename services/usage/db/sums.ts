import type { MeasuresSchema } from '#gen/modelgateway/usage/v1/report_pb.ts';
import type { WholeMessage } from '#shared/whole-message.ts';

/** How the sums of some roll-up columns are read and added up. */
function sumsOf<Column extends string>(columns: readonly Column[]) {
  type SumsOfColumns = Record<Column, bigint>;
  const zeros = Object.fromEntries(columns.map((name) => [name, 0n])) as SumsOfColumns;
  return {
    columns,
    /** The select list; zeros when there are no rows. */
    sql: columns.map((name) => `coalesce(sum(${name}), 0)::bigint as ${name}`).join(', '),
    none: (): SumsOfColumns => ({ ...zeros }),
    /** Adds to `total` in place, or with -1 subtracts from it. */
    add(total: SumsOfColumns, sums: SumsOfColumns, sign: 1n | -1n = 1n): void {
      for (const name of columns) {
        const before: bigint = total[name];
        const sum: bigint = sums[name];
        total[name] = sign === 1n ? before + sum : before - sum;
      }
    },
  };
}

/** What calls used and what they cost. */
export const measureSums = sumsOf([
  'requests',
  'successful_requests',
  'input_tokens',
  'cached_input_tokens',
  'output_tokens',
  'images',
  'audio_ms',
  'characters',
  'duration_ms',
  'cost_nano_usd',
]);
export type Sums = ReturnType<typeof measureSums.none>;

/**
 * Sums without money, and the basis of performance figures: cache hits are calls with at least one cached prompt token, misses those with
 * prompt tokens of which none was cached, and `generating_ms` covers calls that produced output tokens.
 */
export const volumeSums = sumsOf([
  'requests',
  'successful_requests',
  'input_tokens',
  'output_tokens',
  'cached_input_tokens',
  'cache_hits',
  'cache_misses',
  'generating_ms',
]);
export type Volume = ReturnType<typeof volumeSums.none>;

export const measuresMessage = (sums: Sums): WholeMessage<typeof MeasuresSchema> => ({
  requests: sums.requests,
  successfulRequests: sums.successful_requests,
  failedRequests: sums.requests - sums.successful_requests,
  inputTokens: sums.input_tokens,
  cachedInputTokens: sums.cached_input_tokens,
  outputTokens: sums.output_tokens,
  totalTokens: sums.input_tokens + sums.output_tokens,
  images: sums.images,
  audioMs: sums.audio_ms,
  characters: sums.characters,
  durationMs: sums.duration_ms,
  costNanoUsd: sums.cost_nano_usd,
});

/** Most expensive first; equal costs by requests, then by name, so that the order is always the same. */
export const byCost = <Row extends Sums & { name: string }>(a: Row, b: Row): number =>
  compare(b.cost_nano_usd, a.cost_nano_usd) || compare(b.requests, a.requests) || compare(a.name, b.name);

const compare = <T extends bigint | string>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0);
