import { type Static, Type } from 'typebox';
import type { VolumeMeasures } from '#gen/modelgateway/usage/v1/key_analytics_pb.ts';
import type { Measures, NamedMeasures, TimeRange } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { usdJson } from '#shared/money.ts';
import { isoTime, isoTimeSchema, usdSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { quantitiesSchema } from '../../../http/quantities-json.ts';

export const rangeSchema = Type.Object(
  { start: isoTimeSchema, end: Type.String({ format: 'date-time', description: 'Exclusive.' }) },
  { $id: 'TimeRange' },
);
export const rangeJson = ({ start, end }: TimeRange): Static<typeof rangeSchema> => ({
  start: isoTime(start!),
  end: isoTime(end!),
});

/** Sums over calls (decisions.md, Usage). */
export const measuresSchema = Type.Object(
  {
    requests: Type.Integer({ description: 'Including failed requests.' }),
    successful_requests: Type.Integer(),
    failed_requests: Type.Integer(),
    ...quantitiesSchema.properties,
    duration_seconds: Type.Number({ description: 'The total duration of all calls.' }),
    cost_usd: usdSchema,
  },
  { $id: 'Measures' },
);
export const measuresJson = (measures: Measures | undefined): Static<typeof measuresSchema> => ({
  ...volumeJson(measures),
  images: Number(measures?.images ?? 0n),
  audio_seconds: Number(measures?.audioMs ?? 0n) / 1000,
  characters: Number(measures?.characters ?? 0n),
  duration_seconds: Number(measures?.durationMs ?? 0n) / 1000,
  cost_usd: usdJson(measures?.costNanoUsd ?? 0n),
});

/** The measures that VolumeMeasures has too: neither media nor cost. */
export const volumeJson = (measures: Omit<VolumeMeasures, '$typeName' | '$unknown'> | undefined) => ({
  requests: Number(measures?.requests ?? 0n),
  successful_requests: Number(measures?.successfulRequests ?? 0n),
  failed_requests: Number(measures?.failedRequests ?? 0n),
  input_tokens: Number(measures?.inputTokens ?? 0n),
  cached_input_tokens: Number(measures?.cachedInputTokens ?? 0n),
  output_tokens: Number(measures?.outputTokens ?? 0n),
  total_tokens: Number(measures?.totalTokens ?? 0n),
});

/* The rows of a split by a dimension. */

export const modelMeasuresSchema = Type.Object(
  { model: Type.String(), ...measuresSchema.properties },
  { $id: 'ModelMeasures' },
);
export const modelMeasuresJson = ({ name, measures }: NamedMeasures): Static<typeof modelMeasuresSchema> => ({
  model: name,
  ...measuresJson(measures),
});

export const endpointMeasuresSchema = Type.Object(
  { endpoint: Type.String(), ...measuresSchema.properties },
  { $id: 'EndpointMeasures' },
);
export const endpointMeasuresJson = ({ name, measures }: NamedMeasures): Static<typeof endpointMeasuresSchema> => ({
  endpoint: name,
  ...measuresJson(measures),
});

export const keyMeasuresSchema = Type.Object(
  {
    api_key_id: orNull(Type.String({ format: 'uuid', description: 'Null for sessions.' })),
    api_key_name: orNull(
      Type.String({ description: 'Also for deleted keys. Null for sessions, and while names cannot be read.' }),
    ),
    api_key_deleted: orNull(Type.Boolean({ description: 'Null if `api_key_name` is.' })),
    api_key_preview: orNull(Type.String({ description: 'Null if `api_key_name` is.' })),
    api_key_user_id: orNull(
      Type.String({ format: 'uuid', description: 'Whose key it is. Null if `api_key_name` is.' }),
    ),
    ...measuresSchema.properties,
  },
  { $id: 'KeyMeasures' },
);
export const keyMeasuresJson = ({ name, measures, key }: NamedMeasures): Static<typeof keyMeasuresSchema> => ({
  api_key_id: name || null,
  api_key_name: key?.name ?? null,
  api_key_deleted: key?.deleted ?? null,
  api_key_preview: key?.preview ?? null,
  api_key_user_id: key?.userId ?? null,
  ...measuresJson(measures),
});
