import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { startAuditRelay } from '#shared/audit-outbox/relay.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { databaseNow } from '#shared/db/database-now.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { createPriceBook } from './charging/price-book.ts';
import { billingEntities } from './db/entities.ts';
import type { BillingDeps } from './deps.ts';
import { billingService } from './index.ts';
import { createRecalls } from './leasing/recalls.ts';
import { createBillingMetrics } from './metrics.ts';
import { providerName } from './payments/provider.ts';
import { stripeProvider } from './payments/stripe.ts';
import { openRateLimitFeed } from './rate-limits/feed.ts';
import { runWorkers } from './workers/run-workers.ts';

type BillingOptions = {
  connection: DatabaseUrl;
  logger: Logger;
  registry: Registry;
  /** Tells the rates of price versions. */
  models: Pick<Client<typeof ModelsService>, 'getPrices'>;
  /** Chains audit events, and tells which organizations exist, and their names. */
  auth: Pick<Client<typeof AuthService>, 'recordAuditEvents' | 'getTenants'>;
  /** Signs the webhooks of the provider `stripe`; undefined: none are accepted. */
  paymentWebhookSecret: string | undefined;
  /** The database's clock; tests can move it. */
  databaseNow?: BillingDeps['databaseNow'];
  /** Whether the workers run, as by default; tests run them by hand, when they expect them. */
  withWorkers?: boolean;
};

type StartedBilling = {
  implementation: ServiceImpl<typeof BillingService>;
  /** The dependencies of the RPCs, for running workers by hand. */
  deps: BillingDeps;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  /** Ends the workers, the relay and the database connections; calls in flight should have ended. */
  close(): Promise<void>;
};

/** Opens Billing on a migrated database and starts its workers. */
export async function startBilling(options: BillingOptions): Promise<StartedBilling> {
  const { connection, logger, registry, models, auth, paymentWebhookSecret: secret } = options;
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const database = await openServiceDatabase({ service: 'billing', connection, entities: billingEntities, logger });
  opened.defer(() => database.close());
  const rateLimits = await openRateLimitFeed(database, connection, logger);
  opened.defer(() => rateLimits.close());
  const deps: BillingDeps = {
    database,
    databaseNow: options.databaseNow ?? databaseNow,
    prices: createPriceBook({ database, models }),
    recalls: createRecalls(),
    rateLimits,
    auth,
    paymentProviders: new Map(secret === undefined ? [] : [[providerName, stripeProvider(secret)]]),
    metrics: createBillingMetrics(registry),
    logger,
  };
  const auditRelay = startAuditRelay({ database, auth, logger, registry });
  opened.defer(() => auditRelay.close());
  if (options.withWorkers !== false) {
    const workers = runWorkers(deps);
    opened.defer(() => workers.close());
  }
  const closing = opened.move();
  return {
    implementation: billingService(deps),
    deps,
    stop: () => auditRelay.close(),
    close: () => closing.disposeAsync(),
  };
}
