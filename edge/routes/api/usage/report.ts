import { Type } from 'typebox';
import { Granularity, GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { measuresJson, splitJson } from './measures-json.ts';
import { choice, filterQuery, rangeQuery, readFilter, readRange, readScope, scopeQuery, zoneQuery } from './query.ts';

const granularities = {
  hourly: Granularity.HOURLY,
  daily: Granularity.DAILY,
  weekly: Granularity.WEEKLY,
  monthly: Granularity.MONTHLY,
};
const groupings = {
  none: GroupBy.NONE,
  model: GroupBy.MODEL,
  api_key: GroupBy.API_KEY,
  endpoint: GroupBy.ENDPOINT,
};
/** The field which names a group, by grouping. */
const groupFields = {
  [GroupBy.MODEL]: 'model',
  [GroupBy.API_KEY]: 'api_key_id',
  [GroupBy.ENDPOINT]: 'endpoint',
} as const;

/** The name of a granularity, as the query and the answers have it. */
export const granularityName = (granularity: Granularity): string =>
  Object.entries(granularities).find(([, value]) => value === granularity)?.[0] ?? 'daily';

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
          granularity: Type.Optional(Type.String({ maxLength: 64 })),
          group_by: Type.Optional(Type.String({ maxLength: 64 })),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const groupBy = choice('group_by', query.group_by, groupings, GroupBy.NONE);
      const answer = await usage.getReport(
        {
          scope: readScope(query),
          range: readRange(query),
          filter: readFilter(query),
          granularity: choice('granularity', query.granularity, granularities, Granularity.DAILY),
          groupBy,
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return {
        range: { start: isoTime(answer.range?.start), end: isoTime(answer.range?.end) },
        granularity: granularityName(answer.granularity),
        timezone: answer.timezone,
        totals: measuresJson(answer.totals),
        buckets: answer.buckets.map(({ range, measures, groups }) => ({
          start: isoTime(range?.start),
          end: isoTime(range?.end),
          ...measuresJson(measures),
          ...(groupBy === GroupBy.NONE ? {} : { groups: splitJson(groupFields[groupBy], groups) }),
        })),
      };
    },
  );
};
