import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';

const hasCapital = /[A-Z]/;

/**
 * A usage event with its ids spelled as by Postgres, so that they can be compared. The given event belongs to its sender and is not
 * changed.
 */
export function withPlainIds(event: UsageEvent): UsageEvent {
  const { id, tenantId, userId, apiKeyId, priceVersionId, leaseIds } = event;
  // Ours are already; copying each event would cost more than everything else done with it.
  if (!hasCapital.test(id + tenantId + userId + apiKeyId + priceVersionId + leaseIds.join(''))) return event;
  return {
    ...event,
    id: id.toLowerCase(),
    tenantId: tenantId.toLowerCase(),
    userId: userId.toLowerCase(),
    apiKeyId: apiKeyId.toLowerCase(),
    priceVersionId: priceVersionId.toLowerCase(),
    leaseIds: leaseIds.map((leaseId) => leaseId.toLowerCase()),
  };
}
