import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import type { Logger } from '#shared/logger.ts';
import type { PriceBook } from './charging/price-book.ts';
import type { Recalls } from './leasing/recalls.ts';
import type { BillingMetrics } from './metrics.ts';
import type { PaymentProvider } from './payments/provider.ts';
import type { RateLimitFeed } from './rate-limits/feed.ts';

/** What Billing's RPCs depend on; assembled in start.ts. */
export type BillingDeps = {
  database: ServiceDatabase;
  /** The database's clock, in milliseconds since the Unix epoch; it decides about days, months and expiries. */
  databaseNow(sql: Sql): Promise<number>;
  prices: PriceBook;
  recalls: Recalls;
  rateLimits: Pick<RateLimitFeed, 'watch'>;
  /** Tells which organizations exist, and their names. */
  auth: Pick<Client<typeof AuthService>, 'getTenants'>;
  /** By the name in the webhook's path. */
  paymentProviders: ReadonlyMap<string, PaymentProvider>;
  metrics: BillingMetrics;
  logger: Logger;
};

/** The implementation of one RPC. */
export type BillingRpc<Name extends keyof ServiceImpl<typeof BillingService>> = ServiceImpl<
  typeof BillingService
>[Name];
