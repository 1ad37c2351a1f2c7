import type { Routes } from '../../../app.ts';
import { adminJobRoutes } from '../admin/jobs.ts';
import { jobCollectionRoutes } from './collection.ts';
import { jobRoutesById } from './job.ts';
import { jobStatsRoutes } from './stats.ts';

/** Background jobs. They are submitted by the inference operations themselves, and from a session here. */
export const jobRoutes: Routes = (app, deps) => {
  jobStatsRoutes(app, deps);
  jobCollectionRoutes(app, deps);
  jobRoutesById(app, deps);
  adminJobRoutes(app, deps);
};
