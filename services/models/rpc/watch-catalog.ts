import { create } from '@bufbuild/protobuf';
import { WatchCatalogResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const watchCatalog = ({ feed }: Pick<ModelsDeps, 'feed'>): ModelsRpc<'watchCatalog'> =>
  async function* (request, context) {
    requireService(callerOf(context));
    let version = request.knownVersion;
    for await (const snapshot of feed.watch(context.signal)) {
      const isNew = snapshot !== undefined && snapshot.version > version;
      if (isNew) version = snapshot.version;
      yield create(WatchCatalogResponseSchema, { version, snapshot: isNew ? snapshot : undefined });
    }
  };
