import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import type { Routes } from '../../routes.ts';
import { measuresJson, rangeJson, splitJson } from './measures-json.ts';
import { filterQuery, rangeQuery, readFilter, readRange, readScope, scopeQuery, zoneQuery } from './query.ts';

/** Sums over a range, in several ways. */
export const usageSummaryRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/summary',
    {
      config: { access: { surface: 'api', scope: 'usage:read_summary' } },
      schema: { querystring: Type.Object({ ...scopeQuery, ...rangeQuery, ...zoneQuery, ...filterQuery }) },
    },
    async (request) => {
      const { query } = request;
      const answer = await usage.getSummary(
        { scope: readScope(query), range: readRange(query), filter: readFilter(query) },
        asCaller(request),
      );
      return {
        range: rangeJson(answer.range),
        ...measuresJson(answer.totals),
        by_model: splitJson('model', answer.byModel),
        by_endpoint: splitJson('endpoint', answer.byEndpoint),
        by_api_key: splitJson('api_key_id', answer.byApiKey),
      };
    },
  );
};
