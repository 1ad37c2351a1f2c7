import { create } from '@bufbuild/protobuf';
import { WatchRateLimitsResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const watchRateLimits = ({ rateLimits }: Pick<BillingDeps, 'rateLimits'>): BillingRpc<'watchRateLimits'> =>
  async function* (_request, context) {
    requireService(callerOf(context));
    for await (const snapshot of rateLimits.watch(context.signal)) {
      yield create(WatchRateLimitsResponseSchema, { snapshot });
    }
  };
