import type { Client } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import { type Following, followStream } from '#shared/rpc/follow-stream.ts';
import type { Catalog } from './catalog.ts';

/** Keeps a catalog current from Models' feed. While the feed is broken the last snapshot stays in force. */
export const followCatalog = (deps: {
  catalog: Catalog;
  models: Pick<Client<typeof ModelsService>, 'watchCatalog'>;
  logger: Logger;
}): Following =>
  followStream({
    name: 'the catalog feed',
    open: (signal) =>
      deps.models.watchCatalog(
        { knownVersion: deps.catalog.version < 0n ? 0n : deps.catalog.version },
        { ...asService('inference'), signal },
      ),
    onMessage({ snapshot }) {
      if (snapshot === undefined) return false;
      deps.catalog.replace(snapshot);
      return true;
    },
    logger: deps.logger,
  });
