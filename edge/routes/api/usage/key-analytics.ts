import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { nameFilter } from '../../../http/json.ts';
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
          'At most 7 days by hour, 90 by day and 365 by week. By default the range ends today and begins six days before its end. ' +
          '`previous_totals` cover as many days before it. An unknown key, or one that the caller may not see, has only zeros.',
        response: { 200: keyAnalyticsSchema },
        params: Type.Object({ key_id: Type.String({ maxLength: 255 }) }),
        querystring: Type.Object({
          ...rangeQuery,
          ...zoneQuery,
          granularity: Type.Optional({ ...keyGranularities.schema, description: '`daily` by default.' }),
          model_name: nameFilter('Narrows totals, series and performance to one model.'),
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
          modelName: query.model_name,
        },
        asCaller(request),
      );
      return keyAnalyticsJson(analytics!);
    },
  );
};
