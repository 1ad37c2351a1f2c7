import type { ServiceImpl } from '@connectrpc/connect';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { UsageDeps } from './deps.ts';
import { exportEvents } from './rpc/export-events.ts';
import { getCurrent } from './rpc/get-current.ts';
import { getKeyAnalytics } from './rpc/get-key-analytics.ts';
import { getRateLimits } from './rpc/get-rate-limits.ts';
import { getReport } from './rpc/get-report.ts';
import { getSummary } from './rpc/get-summary.ts';
import { getTenantBreakdown } from './rpc/get-tenant-breakdown.ts';
import { listHistory } from './rpc/list-history.ts';
import { listModelUsers } from './rpc/list-model-users.ts';
import { quota } from './rpc/quota.ts';
import { record } from './rpc/record.ts';

/** Every metered call, stored once and answered for in reports. start.ts makes its dependencies. */
export const usageService = (deps: UsageDeps): Partial<ServiceImpl<typeof UsageService>> => ({
  record: record(deps),

  getCurrent: getCurrent(deps),
  listHistory: listHistory(deps),
  getSummary: getSummary(deps),
  getReport: getReport(deps),
  getTenantBreakdown: getTenantBreakdown(deps),
  getKeyAnalytics: getKeyAnalytics(deps),
  exportEvents: exportEvents(deps),

  listModelUsers: listModelUsers(deps),

  quota: quota(deps),
  getRateLimits: getRateLimits(deps),
});
