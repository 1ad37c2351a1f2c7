import type { Client } from '@connectrpc/connect';
import type { BillingService, RateLimitSnapshot } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { defaultRateLimits, type RateLimits } from '#shared/rate-limits.ts';
import { asService } from '#shared/rpc/caller.ts';
import { type Following, followStream } from '#shared/rpc/follow-stream.ts';

/** The rate limits of every organization, set by its plan or for itself, as Billing last said. Until then the platform's defaults hold. */
export class RateLimitBook {
  #standard = defaultRateLimits;
  #byTenant: ReadonlyMap<string, RateLimits> = new Map();

  replace({ defaultLimits, organizations }: RateLimitSnapshot): void {
    this.#standard = defaultLimits ?? defaultRateLimits;
    this.#byTenant = new Map(organizations.map(({ tenantId, limits }) => [tenantId, limits ?? defaultRateLimits]));
  }

  /** A caller's limits: each one the key's own, or else the organization's. */
  limitsOf(tenantId: string, own: CallerConstraints | undefined): RateLimits {
    const organization = this.#byTenant.get(tenantId) ?? this.#standard;
    if (own === undefined || (own.requestsPerMinute | own.tokensPerMinute | own.concurrentRequests) === 0) {
      return organization;
    }
    return {
      requestsPerMinute: own.requestsPerMinute || organization.requestsPerMinute,
      tokensPerMinute: own.tokensPerMinute || organization.tokensPerMinute,
      concurrentRequests: own.concurrentRequests || organization.concurrentRequests,
    };
  }
}

/** Keeps a book current from Billing's feed. While the feed is broken the last limits stay in force. */
export const followRateLimits = (deps: {
  book: RateLimitBook;
  billing: Pick<Client<typeof BillingService>, 'watchRateLimits'>;
  logger: Logger;
}): Following =>
  followStream({
    name: 'the feed of rate limits',
    open: (signal) => deps.billing.watchRateLimits({}, { ...asService('inference'), signal }),
    onMessage({ snapshot }) {
      if (snapshot === undefined) return false;
      deps.book.replace(snapshot);
      return true;
    },
    logger: deps.logger,
  });
