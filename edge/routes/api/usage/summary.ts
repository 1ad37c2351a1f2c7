import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import type { Routes } from '../../routes.ts';
import {
  filterQuery,
  rangeQuery,
  readFilter,
  readRange,
  readScope,
  requiredRange,
  scopeQuery,
  zoneQuery,
} from './query.ts';
import { summaryJson, summarySchema } from './report-json.ts';

/** Sums over a range, in several ways. */
export const usageSummaryRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/summary',
    {
      config: { access: { surface: 'api', scope: 'usage:read_summary' } },
      schema: {
        summary: 'Summarize usage',
        description: 'Of at most 366 days, and what the caller used unless `scope` says otherwise.',
        querystring: Type.Object({ ...scopeQuery, ...rangeQuery, ...zoneQuery, ...filterQuery }),
        requiredQuery: requiredRange,
        response: { 200: summarySchema },
      },
    },
    async (request) => {
      const { query } = request;
      const answer = await usage.getSummary(
        { scope: readScope(query), range: readRange(query), filter: readFilter(query) },
        asCaller(request),
      );
      return summaryJson(answer);
    },
  );
};
