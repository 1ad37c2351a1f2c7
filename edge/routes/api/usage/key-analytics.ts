import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { keyGranularities } from './granularities.ts';
import { keyAnalyticsJson, keyAnalyticsSchema } from './key-analytics-json.ts';
import { rangeQuery, readRange, zoneQuery } from './query.ts';

/** The report on one key (service.md, Key analytics): volume only, and zeros for a key that the caller may not see. */
export const keyAnalyticsRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/api-keys/:key_id/analytics',
    {
      config: { access: { surface: 'api', scope: 'usage:read_report' } },
      schema: {
        summary: 'Report on a key',
        description:
          'Of at most 7 days by hour, 90 by day and 365 by week. It ends today and begins six days before its end unless dates say otherwise. ' +
          "`previous_totals` are those of as many days before. A key that is unknown, or not the caller's to see, has zeros.",
        response: { 200: keyAnalyticsSchema },
        params: Type.Object({ key_id: Type.String({ maxLength: 255 }) }),
        querystring: Type.Object({
          ...rangeQuery,
          ...zoneQuery,
          granularity: Type.Optional({ ...keyGranularities.schema, description: '`daily` unless given.' }),
          model_name: Type.Optional(
            Type.String({ maxLength: 255, description: 'Narrows totals, series and performance to one model.' }),
          ),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const { analytics } = await usage.getKeyAnalytics(
        {
          keyId: request.params.key_id,
          granularity: keyGranularities.value(query.granularity ?? 'daily'),
          range: readRange(query),
          modelName: query.model_name ?? '',
        },
        asCaller(request),
      );
      return keyAnalyticsJson(analytics!);
    },
  );
};
