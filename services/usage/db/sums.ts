import type { MessageInitShape } from '@bufbuild/protobuf';
import type { MeasuresSchema } from '#gen/modelgateway/usage/v1/report_pb.ts';

/** The measures which roll-ups keep. */
export const sumColumns = [
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
] as const;

/** Sums over some roll-up rows. */
export type Sums = Record<(typeof sumColumns)[number], bigint>;

/** The select list of `Sums`; zeros when there are no rows. */
export const sumsSql = sumColumns.map((name) => `coalesce(sum(${name}), 0)::bigint as ${name}`).join(', ');

const zeros = Object.fromEntries(sumColumns.map((name) => [name, 0n])) as Sums;
export const noSums = (): Sums => ({ ...zeros });

/** Adds to `total` in place, or with -1 takes from it. */
export function addSums(total: Sums, sums: Sums, sign: 1n | -1n = 1n): void {
  for (const name of sumColumns) total[name] += sign === 1n ? sums[name] : -sums[name];
}

export const measuresMessage = (sums: Sums): MessageInitShape<typeof MeasuresSchema> => ({
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

/** Dearest first; what costs the same by requests, then by name, so that the order is always the same. */
export const byCost = <Row extends Sums & { name: string }>(a: Row, b: Row): number =>
  compare(b.cost_nano_usd, a.cost_nano_usd) || compare(b.requests, a.requests) || compare(a.name, b.name);

const compare = <T extends bigint | string>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0);
