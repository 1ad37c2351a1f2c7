import { Type } from 'typebox';
import { Granularity, GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { asCaller } from '../../../caller.ts';
import { spelling } from '../../../http/spelling.ts';
import type { Routes } from '../../routes.ts';
import { measuresJson, rangeJson, splitJson } from './measures-json.ts';
import { filterQuery, rangeQuery, readFilter, readRange, readScope, scopeQuery, zoneQuery } from './query.ts';

const granularities = spelling({
  hourly: Granularity.HOURLY,
  daily: Granularity.DAILY,
  weekly: Granularity.WEEKLY,
  monthly: Granularity.MONTHLY,
});
const groupings = spelling({
  none: GroupBy.NONE,
  model: GroupBy.MODEL,
  api_key: GroupBy.API_KEY,
  endpoint: GroupBy.ENDPOINT,
});
/** The field which names a group, by grouping. */
const groupFields = {
  [GroupBy.MODEL]: 'model',
  [GroupBy.API_KEY]: 'api_key_id',
  [GroupBy.ENDPOINT]: 'endpoint',
} as const;

/** A dense time series. */
export const usageReportRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/report',
    {
      config: { access: { surface: 'api', scope: 'usage:read_report' } },
      schema: {
        querystring: Type.Object({
          ...scopeQuery,
          ...rangeQuery,
          ...zoneQuery,
          ...filterQuery,
          granularity: Type.Optional(granularities.schema),
          group_by: Type.Optional(groupings.schema),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const groupBy = groupings.value(query.group_by ?? 'none');
      const answer = await usage.getReport(
        {
          scope: readScope(query),
          range: readRange(query),
          filter: readFilter(query),
          granularity: granularities.value(query.granularity ?? 'daily'),
          groupBy,
        },
        asCaller(request),
      );
      return {
        range: rangeJson(answer.range),
        granularity: granularities.name(answer.granularity),
        timezone: answer.timezone,
        totals: measuresJson(answer.totals),
        buckets: answer.buckets.map(({ range, measures, groups }) => ({
          ...rangeJson(range),
          ...measuresJson(measures),
          ...(groupBy === GroupBy.NONE ? {} : { groups: splitJson(groupFields[groupBy], groups) }),
        })),
      };
    },
  );
};
