import { Type } from 'typebox';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { eventJson } from './event-json.ts';
import { filterQuery, rangeQuery, readFilter, readRange, readScope, scopeQuery, zoneQuery } from './query.ts';

/** The events themselves, newest first. */
export const usageHistoryRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/history',
    {
      config: { access: { surface: 'api', scope: 'usage:read_history' } },
      schema: {
        querystring: Type.Object({
          ...scopeQuery,
          ...rangeQuery,
          ...zoneQuery,
          ...filterQuery,
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500 })),
          offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const answer = await usage.listHistory(
        {
          scope: readScope(query),
          range: readRange(query),
          filter: readFilter(query),
          limit: query.limit,
          offset: query.offset,
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return { data: answer.events.map(eventJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
