import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const watchRateLimits =
  ({ rateLimits }: Pick<BillingDeps, 'rateLimits'>): BillingRpc<'watchRateLimits'> =>
  (_request, context) => {
    requireService(callerOf(context));
    return rateLimits.watch(context.signal);
  };
