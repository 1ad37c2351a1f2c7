import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { JobHold } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { Hold } from './hold.ts';

const rpcTimeoutMs = 3_000;

/**
 * The room that Jobs has held for a background call since its submission. After a success it is given back in the name of the job, since it
 * was leased in that name. If Billing cannot be told, charging the call's event settles it, and the rest lapses.
 */
export function jobHold(
  { billing, logger }: { billing: Pick<Client<typeof BillingService>, 'settle'>; logger: Pick<Logger, 'debug'> },
  { holderId, leases, costAllowedNanoUsd }: JobHold,
): Hold {
  return {
    leaseIds: leases.map(({ leaseId }) => leaseId),
    costAllowedNanoUsd: costAllowedNanoUsd ?? null,
    isOfJob: true,
    async settle(usedNanoUsd) {
      if (leases.length === 0) return;
      const settlements = leases.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken, usedNanoUsd }));
      const options = { ...asService('inference'), timeoutMs: rpcTimeoutMs };
      try {
        await billing.settle({ holderId, settlements }, options);
      } catch (err) {
        // Nothing is lost, and each job would tell of the same outage.
        logger.debug({ err, job: holderId }, 'the hold of a job could not be settled; its charge will settle it');
      }
    },
  };
}
