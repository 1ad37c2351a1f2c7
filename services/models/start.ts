import type { ServiceImpl } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { CatalogFeed } from './catalog/catalog-feed.ts';
import { modelEntities } from './db/catalog.entities.ts';
import { type ModelsDeps, modelsService } from './index.ts';

export type StartedModels = {
  implementation: Partial<ServiceImpl<typeof ModelsService>>;
  close(): Promise<void>;
};

/** Opens Models on a migrated database. */
export async function startModels(options: {
  connection: DatabaseUrl;
  clock: Clock;
  logger: Logger;
  connectUpstream: ModelsDeps['connectUpstream'];
}): Promise<StartedModels> {
  const { connection, clock, logger, connectUpstream } = options;
  const database = await openServiceDatabase({ service: 'models', connection, entities: modelEntities, logger });
  const feed = new CatalogFeed(database, logger);
  await feed.open(connection);
  return {
    implementation: modelsService({ database, feed, clock, connectUpstream }),
    close: async () => {
      await feed.close();
      await database.close();
    },
  };
}
