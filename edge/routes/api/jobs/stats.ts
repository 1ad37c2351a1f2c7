import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { isoTime, isoTimeSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { jobStatuses } from '../../../openai/job-json.ts';

export const jobStatsSchema = Type.Object({
  total: Type.Integer(),
  by_status: Type.Record(Type.String(), Type.Integer()),
  oldest_queued_at: orNull(isoTimeSchema),
});

/** GET /api/v1/jobs/stats: how many of the caller's jobs are in each state (decisions.md, Jobs). */
export const jobStatsRoutes: Routes = (app, { jobs }) => {
  app.get(
    '/api/v1/jobs/stats',
    {
      config: { access: { surface: 'api', scope: 'jobs:stats_own' } },
      schema: { summary: 'Count jobs', response: { 200: jobStatsSchema } },
    },
    async (request) => {
      const stats = await jobs.getJobStats({}, asCaller(request));
      return {
        total: Number(stats.total),
        by_status: Object.fromEntries(
          stats.byStatus.map(({ status, count }) => [jobStatuses.name(status) ?? 'unknown', Number(count)]),
        ),
        oldest_queued_at: isoTime(stats.oldestQueuedAt),
      };
    },
  );
};
