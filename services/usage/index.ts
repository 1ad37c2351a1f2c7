import type { ServiceImpl } from '@connectrpc/connect';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { UsageDeps } from './deps.ts';
import { getCurrent } from './rpc/get-current.ts';
import { listHistory } from './rpc/list-history.ts';
import { record } from './rpc/record.ts';

/** Every metered call, stored once and answered for in reports. start.ts makes its dependencies. */
export const usageService = (deps: UsageDeps): Partial<ServiceImpl<typeof UsageService>> => ({
  record: record(deps),

  getCurrent: getCurrent(deps),
  listHistory: listHistory(deps),
});
