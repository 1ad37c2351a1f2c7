import type { Routes } from '../../../app.ts';
import { adminDeploymentRoutes } from './deployments.ts';
import { adminGrantRoutes } from './grants.ts';
import { adminModelRoutes } from './models.ts';
import { adminPriceRoutes } from './prices.ts';
import { adminReminderRoutes } from './reminders.ts';
import { adminRetirementRoutes } from './retirements.ts';
import { adminUpstreamRoutes } from './upstreams.ts';

/** The catalog under /api/v1/admin, for platform operators (decisions.md, Auth: Operators). */
export const catalogAdminRoutes: Routes = (app, deps) => {
  adminModelRoutes(app, deps);
  adminDeploymentRoutes(app, deps);
  adminPriceRoutes(app, deps);
  adminGrantRoutes(app, deps);
  adminRetirementRoutes(app, deps);
  adminReminderRoutes(app, deps);
  adminUpstreamRoutes(app, deps);
};
