import { create } from '@bufbuild/protobuf';
import { ReleaseHoldRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { UnwantedRoom } from '#shared/unwanted-room.ts';
import type { HoldingBilling } from '../deps.ts';
import { rememberUnlimited } from './remember-unlimited.ts';

/** How often Billing is told again of room that was given back and that it did not hear of, in milliseconds. */
const tellAgainMs = 500;

/** Billing as jobs ask it: once in a while about a caller whom nothing limits, and told until it hears it of room that was given back. */
export function startHoldingBilling(
  billing: HoldingBilling,
  { clock, logger }: { clock: Clock; logger: Logger },
): { billing: HoldingBilling; close(): Promise<void> } {
  const unwanted = new UnwantedRoom(billing, 'jobs');
  const telling = startRecurringWork({
    name: "the return of jobs' unwanted room",
    everyMs: tellAgainMs,
    round: () => unwanted.tell(),
    logger,
  });
  const releaseHold: HoldingBilling['releaseHold'] = (request, options) =>
    billing.releaseHold(request, options).catch((error) => {
      const { holderId, leases } = create(ReleaseHoldRequestSchema, request);
      unwanted.add(holderId, leases);
      throw error;
    });
  return { billing: { ...rememberUnlimited(billing, clock), releaseHold }, close: () => telling.close() };
}
