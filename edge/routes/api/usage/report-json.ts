import { type Static, type TSchema, Type } from 'typebox';
import { GroupBy, type NamedMeasures } from '#gen/modelgateway/usage/v1/report_pb.ts';
import type {
  GetCurrentResponse,
  GetReportResponse,
  GetSummaryResponse,
  GetTenantBreakdownResponse,
} from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { usdJson } from '#shared/money.ts';
import { idSchema, isoTime, isoTimeSchema, usdSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { granularities } from './granularities.ts';
import {
  endpointMeasuresJson,
  endpointMeasuresSchema,
  keyMeasuresJson,
  keyMeasuresSchema,
  measuresJson,
  measuresSchema,
  modelMeasuresJson,
  modelMeasuresSchema,
  rangeJson,
  rangeSchema,
} from './measures-json.ts';

/* What calls used, summed in several ways (decisions.md, Usage). */

const dearestFirst = <Row extends TSchema>(row: Row) => Type.Array(row, { description: 'Most expensive first.' });

export const currentUsageSchema = Type.Object(
  {
    period_start: isoTimeSchema,
    period_end: Type.String({ format: 'date-time', description: 'Exclusive: the start of the next month.' }),
    ...measuresSchema.properties,
    models: dearestFirst(modelMeasuresSchema),
  },
  { $id: 'CurrentUsage' },
);
export const currentUsageJson = ({
  period,
  measures,
  models,
}: GetCurrentResponse): Static<typeof currentUsageSchema> => ({
  period_start: isoTime(period!.start!),
  period_end: isoTime(period!.end!),
  ...measuresJson(measures),
  models: models.map(modelMeasuresJson),
});

export const summarySchema = Type.Object(
  {
    range: rangeSchema,
    ...measuresSchema.properties,
    by_model: dearestFirst(modelMeasuresSchema),
    by_endpoint: dearestFirst(endpointMeasuresSchema),
    by_api_key: dearestFirst(keyMeasuresSchema),
  },
  { $id: 'UsageSummary' },
);
export const summaryJson = (summary: GetSummaryResponse): Static<typeof summarySchema> => ({
  range: rangeJson(summary.range!),
  ...measuresJson(summary.totals),
  by_model: summary.byModel.map(modelMeasuresJson),
  by_endpoint: summary.byEndpoint.map(endpointMeasuresJson),
  by_api_key: summary.byApiKey.map(keyMeasuresJson),
});

export const groupings = spelling({
  none: GroupBy.NONE,
  model: GroupBy.MODEL,
  api_key: GroupBy.API_KEY,
  endpoint: GroupBy.ENDPOINT,
});

type Grouping = Static<typeof groupings.schema>;

const groupSchema = Type.Union([modelMeasuresSchema, keyMeasuresSchema, endpointMeasuresSchema]);
/** The field that names a bucket's group, by grouping. */
const groupJson: Readonly<Record<Grouping, ((group: NamedMeasures) => Static<typeof groupSchema>) | null>> = {
  none: null,
  model: modelMeasuresJson,
  api_key: keyMeasuresJson,
  endpoint: endpointMeasuresJson,
};

export const reportSchema = Type.Object(
  {
    range: rangeSchema,
    granularity: granularities.schema,
    timezone: Type.String({ description: 'The time zone of the buckets; `UTC` for hourly ones.' }),
    totals: measuresSchema,
    buckets: Type.Array(
      Type.Object({
        ...rangeSchema.properties,
        ...measuresSchema.properties,
        groups: Type.Optional(
          Type.Array(groupSchema, {
            description: 'Groups with traffic, by name or id, if `group_by` asks for groups.',
          }),
        ),
      }),
      { description: 'Oldest first, including buckets without traffic.' },
    ),
  },
  { $id: 'UsageReport' },
);
export function reportJson(report: GetReportResponse, grouping: Grouping): Static<typeof reportSchema> {
  const asGroup = groupJson[grouping];
  return {
    range: rangeJson(report.range!),
    granularity: granularities.name(report.granularity),
    timezone: report.timezone,
    totals: measuresJson(report.totals),
    buckets: report.buckets.map(({ range, measures, groups }) => ({
      ...rangeJson(range!),
      ...measuresJson(measures),
      ...(asGroup !== null && { groups: groups.map(asGroup) }),
    })),
  };
}

export const tenantBreakdownSchema = Type.Object(
  {
    range: rangeSchema,
    users: Type.Array(
      Type.Object({
        user_id: idSchema,
        email: orNull(Type.String({ description: 'Null for a user who is no longer known.' })),
        requests: Type.Integer(),
        tokens: Type.Integer(),
        cost_usd: usdSchema,
      }),
    ),
  },
  { $id: 'TenantBreakdown' },
);
export const tenantBreakdownJson = ({
  range,
  users,
}: GetTenantBreakdownResponse): Static<typeof tenantBreakdownSchema> => ({
  range: rangeJson(range!),
  users: users.map(({ userId, email, measures }) => ({
    user_id: userId,
    email: email || null,
    requests: Number(measures?.requests ?? 0n),
    tokens: Number(measures?.totalTokens ?? 0n),
    cost_usd: usdJson(measures?.costNanoUsd ?? 0n),
  })),
});
