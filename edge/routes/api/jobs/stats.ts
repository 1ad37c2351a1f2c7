import { type Static, type TSchema, Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { isoTime, isoTimeSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { jobStatuses } from '../../../openai/job-json.ts';

const byStatusSchema = Type.Object({
  queued: Type.Integer(),
  in_progress: Type.Integer(),
  completed: Type.Integer(),
  failed: Type.Integer(),
  cancelled: Type.Integer(),
} satisfies Record<(typeof jobStatuses.names)[number], TSchema>);

export const jobStatsSchema = Type.Object({
  total: Type.Integer(),
  by_status: byStatusSchema,
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
          stats.byStatus.map(({ status, count }) => [jobStatuses.name(status), Number(count)]),
        ) as Static<typeof byStatusSchema>,
        oldest_queued_at: isoTime(stats.oldestQueuedAt),
      };
    },
  );
};
