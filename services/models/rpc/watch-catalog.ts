import { create } from '@bufbuild/protobuf';
import { WatchCatalogResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { touchCatalog } from '../catalog/catalog-feed.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const watchCatalog = ({ database, feed }: Pick<ModelsDeps, 'database' | 'feed'>): ModelsRpc<'watchCatalog'> =>
  async function* (request, context) {
    requireService(callerOf(context));
    let version = request.knownVersion;
    if (version > feed.snapshot.version) await feed.refresh();
    if (version > feed.snapshot.version) {
      // A backup was restored. Edges accept only later catalogs, and the next version is later than any before: it is a time.
      await transaction(database, touchCatalog);
      await feed.refresh();
    }
    for await (const snapshot of feed.watch(context.signal)) {
      const isNew = snapshot !== undefined && snapshot.version > version;
      if (isNew) version = snapshot.version;
      yield create(WatchCatalogResponseSchema, { version, snapshot: isNew ? snapshot : undefined });
    }
  };
