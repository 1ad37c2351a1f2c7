import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LeaseRequestSchema, LeaseResponse } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { HoldingBilling } from '../deps.ts';

/** How long Billing's word that nothing limits a caller is believed, in milliseconds: as for synchronous calls. */
const unlimitedMs = 3_000;
/** Limits the memory taken by callers who are gone. */
const callersMax = 10_000;

/**
 * Billing, but not asked again for a while about a caller whom nothing limits. A limit set in the meantime applies to jobs that are
 * submitted, or run, after that time.
 */
export function rememberUnlimited(billing: HoldingBilling, clock: Pick<Clock, 'monotonic'>): HoldingBilling {
  const known = new Map<string, { untilMs: number; answer: LeaseResponse }>();
  const lease = async (
    request: MessageInitShape<typeof LeaseRequestSchema>,
    options: Parameters<HoldingBilling['lease']>[1],
  ): Promise<LeaseResponse> => {
    // It asks only whether an event was charged.
    if (request.demands?.length === 0) return billing.lease(request, options);
    const caller = `${request.tenantId} ${request.userId} ${request.apiKeyId}`;
    const askedMs = clock.monotonic();
    const earlier = known.get(caller);
    if (earlier !== undefined && askedMs < earlier.untilMs) return earlier.answer;
    const answer = await billing.lease(request, options);
    if (known.size >= callersMax) known.clear();
    if (!answer.isCharged && answer.leases.every(({ unlimited }) => unlimited)) {
      known.set(caller, { untilMs: askedMs + unlimitedMs, answer });
    }
    return answer;
  };
  return { ...billing, lease };
}
