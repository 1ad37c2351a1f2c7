import { type Static, Type } from 'typebox';
import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { KeyAnalytics, KeyPerformance } from '#gen/modelgateway/usage/v1/key_analytics_pb.ts';
import { operationName } from '#shared/operations.ts';
import { idSchema, isoTime, isoTimeSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { keyStatuses } from '../api-keys/key-fields.ts';
import { keyGranularities } from './granularities.ts';
import { measuresSchema, rangeJson, rangeSchema, volumeJson } from './measures-json.ts';

/* The report on one key (service.md, Key analytics): volume only, and no cost. */

export const volumeSchema = Type.Pick(
  measuresSchema,
  [
    'requests',
    'successful_requests',
    'failed_requests',
    'total_tokens',
    'input_tokens',
    'output_tokens',
    'cached_input_tokens',
  ],
  { $id: 'VolumeMeasures' },
);

const performanceSchema = Type.Object(
  {
    available: Type.Boolean(),
    p50_latency_ms: orNull(Type.Integer()),
    p95_latency_ms: orNull(Type.Integer()),
    cache_hits: orNull(Type.Integer({ description: 'Calls with at least one cached input token.' })),
    cache_misses: orNull(Type.Integer({ description: 'Calls with input tokens, none of them cached.' })),
    cached_tokens: orNull(Type.Integer()),
    tokens_per_second: orNull(Type.Number({ description: 'Output tokens per second of latency.' })),
  },
  { description: 'For ranges of up to 31 days. For wider ones `available` is false and everything else null.' },
);
const performanceJson = (performance: KeyPerformance): Static<typeof performanceSchema> => ({
  available: performance.available,
  p50_latency_ms: performance.p50LatencyMs ?? null,
  p95_latency_ms: performance.p95LatencyMs ?? null,
  cache_hits: numberOrNull(performance.cacheHits),
  cache_misses: numberOrNull(performance.cacheMisses),
  cached_tokens: numberOrNull(performance.cachedTokens),
  tokens_per_second: performance.tokensPerSecond ?? null,
});

const numberOrNull = (count: bigint | undefined): number | null => (count === undefined ? null : Number(count));

export const keyAnalyticsSchema = Type.Object(
  {
    key_id: Type.String({ description: 'As requested, whether the key exists or not.' }),
    key_name: orNull(
      Type.String({
        description:
          'Also of a deleted key. Null for an unknown key, for one that the caller may not see, and while names cannot be read.',
      }),
    ),
    key_deleted: orNull(Type.Boolean({ description: 'Null if `key_name` is.' })),
    key_status: orNull({ ...keyStatuses.schema, description: 'Null if `key_name` is, and for a deleted key.' }),
    key_preview: orNull(Type.String({ description: 'Null if `key_name` is.' })),
    key_user_id: orNull(Type.String({ format: 'uuid', description: 'Whose key it is. Null if `key_name` is.' })),
    granularity: keyGranularities.schema,
    range: rangeSchema,
    timezone: Type.String({ description: 'The time zone of the buckets; `UTC` for hourly ones.' }),
    totals: volumeSchema,
    previous_totals: volumeSchema,
    series: Type.Array(Type.Object({ bucket_start: isoTimeSchema, ...volumeSchema.properties }), {
      description: 'Oldest first, including buckets without traffic.',
    }),
    by_model: Type.Array(Type.Object({ model: Type.String(), ...volumeSchema.properties }), {
      description: 'Most requests first; never narrowed by `model_name`.',
    }),
    performance: performanceSchema,
    recent_activity: Type.Array(
      Type.Object({
        id: idSchema,
        occurred_at: isoTimeSchema,
        model: Type.String(),
        endpoint: Type.String(),
        operation: Type.String(),
        status: Type.String({ description: '`Success`, the error code, or `Failed` if there is none.' }),
        input_tokens: Type.Integer(),
        output_tokens: Type.Integer(),
        total_tokens: Type.Integer(),
        latency_ms: Type.Integer(),
      }),
      { description: 'The latest calls, newest first, at most ten.' },
    ),
  },
  { $id: 'KeyAnalytics' },
);
export const keyAnalyticsJson = (analytics: KeyAnalytics): Static<typeof keyAnalyticsSchema> => ({
  key_id: analytics.keyId,
  key_name: analytics.key?.name ?? null,
  key_deleted: analytics.key?.deleted ?? null,
  key_status: keyStatuses.name(analytics.key?.status ?? KeyStatus.UNSPECIFIED),
  key_preview: analytics.key?.preview ?? null,
  key_user_id: analytics.key?.userId ?? null,
  granularity: keyGranularities.name(analytics.granularity),
  range: rangeJson(analytics.range!),
  timezone: analytics.timezone,
  totals: volumeJson(analytics.totals),
  previous_totals: volumeJson(analytics.previousTotals),
  series: analytics.series.map((point) => ({
    bucket_start: isoTime(point.bucketStart!),
    ...volumeJson(point.measures),
  })),
  by_model: analytics.byModel.map(({ model, measures }) => ({ model, ...volumeJson(measures) })),
  performance: performanceJson(analytics.performance!),
  recent_activity: analytics.recentActivity.map((row) => ({
    id: row.eventId,
    occurred_at: isoTime(row.occurredAt!),
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
