import type { ServiceImpl } from '@connectrpc/connect';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { createReadTurns, readInTurn } from '#shared/rpc/read-turns.ts';
import type { UsageDeps } from './deps.ts';
import { adminFindCalls } from './rpc/admin-find-calls.ts';
import { adminGetPriceCharges } from './rpc/admin-get-price-charges.ts';
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

/** Every metered call, stored once and summed up in reports. start.ts makes the dependencies. */
export function usageService(deps: UsageDeps): ServiceImpl<typeof UsageService> {
  const reads = createReadTurns();
  const inTurn = readInTurn(reads);
  return {
    record: record(deps),

    getCurrent: inTurn(getCurrent(deps)),
    listHistory: inTurn(listHistory(deps)),
    getSummary: getSummary({ ...deps, reads }),
    getReport: getReport({ ...deps, reads }),
    getTenantBreakdown: getTenantBreakdown({ ...deps, reads }),
    getKeyAnalytics: getKeyAnalytics({ ...deps, reads }),
    exportEvents: exportEvents({ ...deps, reads }),

    adminFindCalls: adminFindCalls(deps),
    adminGetPriceCharges: adminGetPriceCharges(deps),
    listModelUsers: listModelUsers(deps),

    quota: quota(deps),
    getRateLimits: getRateLimits(deps),
  };
}
