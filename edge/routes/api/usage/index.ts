import type { Routes } from '../../../app.ts';
import { currentUsageRoutes } from './current.ts';
import { usageExportRoutes } from './export.ts';
import { usageHistoryRoutes } from './history.ts';
import { keyAnalyticsRoutes } from './key-analytics.ts';
import { usageReportRoutes } from './report.ts';
import { usageSummaryRoutes } from './summary.ts';
import { tenantBreakdownRoutes } from './tenant-breakdown.ts';

/** Everything below /api/v1/usage (service.md, Management endpoints and Key analytics). */
export const usageRoutes: Routes = (app, deps) => {
  currentUsageRoutes(app, deps);
  usageHistoryRoutes(app, deps);
  usageSummaryRoutes(app, deps);
  usageReportRoutes(app, deps);
  tenantBreakdownRoutes(app, deps);
  keyAnalyticsRoutes(app, deps);
  usageExportRoutes(app, deps);
};
