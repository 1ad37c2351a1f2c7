import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type WatchCatalogRequest,
  type WatchCatalogResponse,
  WatchCatalogResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { ModelsDeps } from '../deps.ts';

export const watchCatalog = ({ feed }: Pick<ModelsDeps, 'feed'>) =>
  async function* (request: WatchCatalogRequest, context: HandlerContext): AsyncGenerator<WatchCatalogResponse> {
    requireService(callerOf(context));
    let version = request.knownVersion;
    for await (const snapshot of feed.watch(context.signal)) {
      const isNew = snapshot !== undefined && snapshot.version > version;
      if (isNew) version = snapshot.version;
      yield create(WatchCatalogResponseSchema, { version, snapshot: isNew ? snapshot : undefined });
    }
  };
