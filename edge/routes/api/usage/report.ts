import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { granularities } from './granularities.ts';
import { callsQuery, readCalls, requiredRange } from './query.ts';
import { groupings, reportJson, reportSchema } from './report-json.ts';

/** A dense time series. */
export const usageReportRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/report',
    {
      config: { access: { surface: 'api', scope: 'usage:read_report' } },
      schema: {
        summary: 'Report on usage',
        description:
          'A time series of at most 7 days by hour, 90 by day, 365 by week and 1,826 by month; with `group_by`, of at most 50,000 rows. Covers what the caller used, unless `scope` says otherwise.',
        requiredQuery: requiredRange,
        response: { 200: reportSchema },
        querystring: Type.Object({
          ...callsQuery,
          granularity: Type.Optional({
            ...granularities.schema,
            description: '`daily` by default; hours are UTC.',
          }),
          group_by: Type.Optional({ ...groupings.schema, description: '`none` by default.' }),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const grouping = query.group_by ?? 'none';
      const answer = await usage.getReport(
        {
          ...readCalls(query),
          granularity: granularities.value(query.granularity ?? 'daily'),
          groupBy: groupings.value(grouping),
        },
        asCaller(request),
      );
      return reportJson(answer, grouping);
    },
  );
};
