import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type {
  KeyAnalyticsPointSchema,
  KeyPerformanceSchema,
  RecentActivitySchema,
  VolumeMeasuresSchema,
} from '#gen/modelgateway/usage/v1/key_analytics_pb.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { EventRow } from '../db/event-rows.ts';
import type { Volume } from '../db/sums.ts';

export const volumeMessage = (volume: Volume): WholeMessage<typeof VolumeMeasuresSchema> => ({
  requests: volume.requests,
  successfulRequests: volume.successful_requests,
  failedRequests: volume.requests - volume.successful_requests,
  totalTokens: volume.input_tokens + volume.output_tokens,
  inputTokens: volume.input_tokens,
  outputTokens: volume.output_tokens,
  cachedInputTokens: volume.cached_input_tokens,
});

export const pointMessage = (startMs: number, volume: Volume): WholeMessage<typeof KeyAnalyticsPointSchema> => ({
  bucketStart: timestampFromMs(startMs),
  measures: volumeMessage(volume),
});

export const performanceMessage = (
  totals: Volume,
  latencies: { p50Ms: number; p95Ms: number } | null,
): WholeMessage<typeof KeyPerformanceSchema> => ({
  available: true,
  p50LatencyMs: latencies?.p50Ms,
  p95LatencyMs: latencies?.p95Ms,
  cacheHits: totals.cache_hits,
  cacheMisses: totals.cache_misses,
  cachedTokens: totals.cached_input_tokens,
  tokensPerSecond: tokensPerSecond(totals),
});

/** Rounded to three decimals; unset without output tokens, or when they took no measurable time. */
function tokensPerSecond({ output_tokens: tokens, generating_ms: ms }: Volume): number | undefined {
  if (tokens === 0n || ms === 0n) return undefined;
  return Math.round((Number(tokens) * 1_000_000) / Number(ms)) / 1_000;
}

export const recentMessage = (row: EventRow): WholeMessage<typeof RecentActivitySchema> => ({
  eventId: row.id,
  occurredAt: timestampFromMs(uuidv7Ms(row.id)),
  model: row.model,
  endpoint: row.endpoint,
  operation: row.operation,
  // Derived from success or the platform's error code, never an HTTP status (service.md, Key analytics report).
  status: row.success ? 'Success' : row.error_code || 'Failed',
  inputTokens: row.input_tokens,
  outputTokens: row.output_tokens,
  totalTokens: row.input_tokens + row.output_tokens,
  latencyMs: Number(row.latency_ms),
});
