import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { callsQuery, readCalls, requiredRange } from './query.ts';
import { summaryJson, summarySchema } from './report-json.ts';

/** Sums over a range, in several ways. */
export const usageSummaryRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/summary',
    {
      config: { access: { surface: 'api', scope: 'usage:read_summary' } },
      schema: {
        summary: 'Summarize usage',
        description: "For at most 366 days; of the caller's own usage unless `scope` says otherwise.",
        querystring: Type.Object(callsQuery),
        requiredQuery: requiredRange,
        response: { 200: summarySchema },
      },
    },
    async (request) => {
      const answer = await usage.getSummary(readCalls(request.query), asCaller(request));
      return summaryJson(answer);
    },
  );
};
