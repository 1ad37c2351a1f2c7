import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { startAuditRelay } from '#shared/audit-outbox/relay.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { openCatalogFeed } from './catalog/catalog-feed.ts';
import { modelEntities } from './db/catalog.entities.ts';
import type { ModelsDeps } from './deps.ts';
import { modelsService } from './index.ts';
import { retirementMetrics } from './retirements/metrics.ts';
import { startReminders } from './retirements/reminders.ts';

type StartedModels = {
  implementation: ServiceImpl<typeof ModelsService>;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  close(): Promise<void>;
};

/** Opens Models on a migrated database. */
export async function startModels(options: {
  connection: DatabaseUrl;
  /** Tells who has a model on an allowlist. */
  keys: Pick<Client<typeof KeysService>, 'listModelAllowlistUsers'>;
  /** Tells who used a model. */
  usage: Pick<Client<typeof UsageService>, 'listModelUsers'>;
  /** Receives audit events and mails. */
  auth: Pick<
    Client<typeof AuthService>,
    'recordAuditEvents' | 'listActiveUsers' | 'getUsers' | 'sendMail' | 'withdrawMail'
  >;
  clock: Clock;
  logger: Logger;
  registry: Registry;
  publicUrl: string;
  upstreamSecret: ModelsDeps['upstreamSecret'];
  connectUpstream: ModelsDeps['connectUpstream'];
}): Promise<StartedModels> {
  const { connection, keys, usage, auth, clock, logger, registry, publicUrl, upstreamSecret, connectUpstream } =
    options;
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const database = await openServiceDatabase({ service: 'models', connection, entities: modelEntities, logger });
  opened.defer(() => database.close());
  const feed = await openCatalogFeed(database, connection, logger);
  opened.defer(() => feed.close());
  const auditRelay = startAuditRelay({ database, auth, logger, registry });
  opened.defer(() => auditRelay.close());
  const reminders = startReminders({ database, keys, usage, auth, clock, logger, publicUrl });
  opened.defer(() => reminders.close());
  retirementMetrics({ registry, feed, clock });
  const closing = opened.move();
  return {
    implementation: modelsService({
      database,
      feed,
      clock,
      logger,
      upstreamSecret,
      connectUpstream,
      onRetirementChange: reminders.wake,
    }),
    stop: async () => {
      await Promise.all([auditRelay.close(), reminders.close()]);
    },
    close: () => closing.disposeAsync(),
  };
}
