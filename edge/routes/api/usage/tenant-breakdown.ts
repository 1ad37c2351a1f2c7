import { Type } from 'typebox';
import { usdJson } from '#shared/money.ts';
import { asCaller } from '../../../caller.ts';
import type { Routes } from '../../routes.ts';
import { rangeJson } from './measures-json.ts';
import { rangeQuery, readRange, zoneQuery } from './query.ts';

/** Sums per user of the organization. Usage refuses members, whatever their key's scopes (service.md, Scopes). */
export const tenantBreakdownRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/tenant-breakdown',
    {
      config: { access: { surface: 'api', scope: 'usage:read_breakdown', role: 'admin' } },
      schema: { querystring: Type.Object({ ...rangeQuery, ...zoneQuery }) },
    },
    async (request) => {
      const answer = await usage.getTenantBreakdown({ range: readRange(request.query) }, asCaller(request));
      return {
        range: rangeJson(answer.range),
        users: answer.users.map(({ userId, email, measures }) => ({
          user_id: userId,
          email: email || null,
          requests: Number(measures?.requests ?? 0n),
          tokens: Number(measures?.totalTokens ?? 0n),
          cost_usd: usdJson(measures?.costNanoUsd ?? 0n),
        })),
      };
    },
  );
};
