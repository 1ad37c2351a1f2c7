import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LeaseRequestSchema, LeaseResponse } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { HoldingBilling } from '../deps.ts';

/** For how long Billing's word that nothing limits a caller is taken, in milliseconds: as for calls that are answered at once. */
const unlimitedMs = 3_000;
/** So that callers who are gone take no memory. */
const callersMax = 10_000;

/**
 * Billing, which is not asked again for a while about a caller whom nothing limits. A limit that is set meanwhile holds for jobs that
 * are submitted, or run, later than that.
 */
export function rememberUnlimited(billing: HoldingBilling, clock: Pick<Clock, 'monotonic'>): HoldingBilling {
  const known = new Map<string, { untilMs: number; answer: LeaseResponse }>();
  const lease = async (
    request: MessageInitShape<typeof LeaseRequestSchema>,
    options: Parameters<HoldingBilling['lease']>[1],
  ): Promise<LeaseResponse> => {
    const caller = `${request.tenantId} ${request.userId} ${request.apiKeyId}`;
    const askedMs = clock.monotonic();
    const earlier = known.get(caller);
    if (earlier !== undefined && askedMs < earlier.untilMs) return earlier.answer;
    const answer = await billing.lease(request, options);
    if (known.size >= callersMax) known.clear();
    if (!answer.isCharged && answer.leases.every(({ unlimited }) => unlimited)) {
      known.set(caller, { untilMs: askedMs + unlimitedMs, answer });
    } else known.delete(caller);
    return answer;
  };
  return { lease, settle: billing.settle, releaseHold: billing.releaseHold };
}
