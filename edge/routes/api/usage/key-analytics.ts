import { Type } from 'typebox';
import type { KeyAnalytics, KeyPerformance, VolumeMeasures } from '#gen/modelgateway/usage/v1/key_analytics_pb.ts';
import { Granularity } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { operationName } from '#shared/operation-name.ts';
import { asCaller } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import { spelling } from '../../../http/spelling.ts';
import type { Routes } from '../../routes.ts';
import { rangeJson } from './measures-json.ts';
import { rangeQuery, readRange, zoneQuery } from './query.ts';

const granularities = spelling({
  hourly: Granularity.HOURLY,
  daily: Granularity.DAILY,
  weekly: Granularity.WEEKLY,
});

/** The report on one key (service.md, Key analytics): volume only, and zeros for a key which the caller may not see. */
export const keyAnalyticsRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/api-keys/:key_id/analytics',
    {
      config: { access: { surface: 'api', scope: 'usage:read_report' } },
      schema: {
        params: Type.Object({ key_id: Type.String({ maxLength: 255 }) }),
        querystring: Type.Object({
          ...rangeQuery,
          ...zoneQuery,
          granularity: Type.Optional(granularities.schema),
          model_name: Type.Optional(Type.String({ maxLength: 255 })),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const { analytics } = await usage.getKeyAnalytics(
        {
          keyId: request.params.key_id,
          granularity: granularities.value(query.granularity ?? 'daily'),
          range: readRange(query),
          modelName: query.model_name ?? '',
        },
        asCaller(request),
      );
      return analyticsJson(analytics!);
    },
  );
};

const analyticsJson = (analytics: KeyAnalytics) => ({
  key_id: analytics.keyId,
  granularity: granularities.name(analytics.granularity),
  range: rangeJson(analytics.range),
  timezone: analytics.timezone,
  totals: volumeJson(analytics.totals),
  previous_totals: volumeJson(analytics.previousTotals),
  series: analytics.series.map((point) => ({
    bucket_start: isoTime(point.bucketStart),
    ...volumeJson(point.measures),
  })),
  by_model: analytics.byModel.map(({ model, measures }) => ({ model, ...volumeJson(measures) })),
  performance: performanceJson(analytics.performance!),
  recent_activity: analytics.recentActivity.map((row) => ({
    id: row.eventId,
    occurred_at: isoTime(row.occurredAt),
    model: row.model,
    endpoint: row.endpoint,
    operation: operationName(row.operation),
    status: row.status,
    input_tokens: Number(row.inputTokens),
    output_tokens: Number(row.outputTokens),
    total_tokens: Number(row.totalTokens),
    latency_ms: row.latencyMs,
  })),
});

const volumeJson = (measures: VolumeMeasures | undefined) => ({
  requests: Number(measures?.requests ?? 0n),
  successful_requests: Number(measures?.successfulRequests ?? 0n),
  failed_requests: Number(measures?.failedRequests ?? 0n),
  total_tokens: Number(measures?.totalTokens ?? 0n),
  input_tokens: Number(measures?.inputTokens ?? 0n),
  output_tokens: Number(measures?.outputTokens ?? 0n),
  cached_input_tokens: Number(measures?.cachedInputTokens ?? 0n),
});

const performanceJson = (performance: KeyPerformance) => ({
  available: performance.available,
  p50_latency_ms: performance.p50LatencyMs ?? null,
  p95_latency_ms: performance.p95LatencyMs ?? null,
  cache_hits: numberOrNull(performance.cacheHits),
  cache_misses: numberOrNull(performance.cacheMisses),
  cached_tokens: numberOrNull(performance.cachedTokens),
  tokens_per_second: performance.tokensPerSecond ?? null,
});

const numberOrNull = (count: bigint | undefined): number | null => (count === undefined ? null : Number(count));
