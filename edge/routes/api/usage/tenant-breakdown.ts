import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { rangeQuery, readRange, zoneQuery } from './query.ts';
import { tenantBreakdownJson, tenantBreakdownSchema } from './report-json.ts';

/** Sums per user of the organization. Usage refuses members, whatever their key's scopes (service.md, Scopes). */
export const tenantBreakdownRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/tenant-breakdown',
    {
      config: { access: { surface: 'api', scope: 'usage:read_breakdown', role: 'admin' } },
      schema: {
        summary: 'Summarize usage by user',
        description: 'For at most 366 days; for the current month if none are given. The heaviest users come first.',
        querystring: Type.Object({ ...rangeQuery, ...zoneQuery }),
        response: { 200: tenantBreakdownSchema },
      },
    },
    async (request) => {
      const answer = await usage.getTenantBreakdown({ range: readRange(request.query) }, asCaller(request));
      return tenantBreakdownJson(answer);
    },
  );
};
