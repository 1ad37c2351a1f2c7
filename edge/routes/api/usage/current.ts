import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { measuresJson, splitJson } from './measures-json.ts';
import { readScope, scopeQuery } from './query.ts';

/** The current UTC month. The bare path is an alias and takes no dates either (service.md, Versioning). */
export const currentUsageRoutes: Routes = (app, { usage }) => {
  for (const path of ['/api/v1/usage', '/api/v1/usage/current']) {
    app.get(
      path,
      {
        config: { access: { surface: 'api', scope: 'usage:read_current' } },
        schema: { querystring: Type.Object(scopeQuery) },
      },
      async (request) => {
        const scope = readScope(request.query);
        const answer = await usage.getCurrent({ scope }, asCaller(request));
        return {
          period_start: isoTime(answer.period?.start),
          period_end: isoTime(answer.period?.end),
          ...measuresJson(answer.measures),
          models: splitJson('model', answer.models),
        };
      },
    );
  }
};
