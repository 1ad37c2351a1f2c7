import type { MeteredUsage } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Measures, NamedMeasures, TimeRange } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { usdJson } from '#shared/money.ts';
import { isoTime } from '../../../http/json.ts';

export const rangeJson = (range: TimeRange | undefined) => ({ start: isoTime(range?.start), end: isoTime(range?.end) });

/** What one call used, without what it cost. */
export const quantitiesJson = (usage: MeteredUsage) => ({
  input_tokens: Number(usage.inputTokens),
  cached_input_tokens: Number(usage.cachedInputTokens),
  output_tokens: Number(usage.outputTokens),
  total_tokens: Number(usage.inputTokens + usage.outputTokens),
  images: Number(usage.images),
  audio_seconds: Number(usage.audioMs) / 1000,
  characters: Number(usage.characters),
});

/** Sums over calls (decisions.md, Usage). */
export const measuresJson = (measures: Measures | undefined) => ({
  requests: Number(measures?.requests ?? 0n),
  successful_requests: Number(measures?.successfulRequests ?? 0n),
  failed_requests: Number(measures?.failedRequests ?? 0n),
  input_tokens: Number(measures?.inputTokens ?? 0n),
  cached_input_tokens: Number(measures?.cachedInputTokens ?? 0n),
  output_tokens: Number(measures?.outputTokens ?? 0n),
  total_tokens: Number(measures?.totalTokens ?? 0n),
  images: Number(measures?.images ?? 0n),
  audio_seconds: Number(measures?.audioMs ?? 0n) / 1000,
  characters: Number(measures?.characters ?? 0n),
  duration_seconds: Number(measures?.durationMs ?? 0n) / 1000,
  cost_usd: usdJson(measures?.costNanoUsd ?? 0n),
});

/** The rows of a split by a dimension; sessions are the row without a key. */
export const splitJson = (dimension: 'model' | 'endpoint' | 'api_key_id', rows: readonly NamedMeasures[]) =>
  rows.map(({ name, measures }) => ({
    [dimension]: dimension === 'api_key_id' ? name || null : name,
    ...measuresJson(measures),
  }));
