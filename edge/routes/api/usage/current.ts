import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { readScope, scopeQuery } from './query.ts';
import { currentUsageJson, currentUsageSchema } from './report-json.ts';

/** The current UTC month. The bare path is an alias and takes no dates either (service.md, Versioning). */
export const currentUsageRoutes: Routes = (app, { usage }) => {
  for (const path of ['/api/v1/usage', '/api/v1/usage/current']) {
    app.get(
      path,
      {
        config: { access: { surface: 'api', scope: 'usage:read_current' } },
        schema: {
          ...(path === '/api/v1/usage/current' && { summary: 'Get current usage' }),
          description: "For the current UTC month; of the caller's own usage unless `scope` says otherwise.",
          querystring: Type.Object(scopeQuery),
          response: { 200: currentUsageSchema },
        },
      },
      async (request) => {
        const scope = readScope(request.query);
        const answer = await usage.getCurrent({ scope }, asCaller(request));
        return currentUsageJson(answer);
      },
    );
  }
};
