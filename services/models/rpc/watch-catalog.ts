import type { HandlerContext } from '@connectrpc/connect';
import type { WatchCatalogRequest } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { ModelsDeps } from '../index.ts';

export const watchCatalog =
  ({ feed }: Pick<ModelsDeps, 'feed'>) =>
  (request: WatchCatalogRequest, context: HandlerContext) => {
    requireService(callerOf(context));
    return feed.watch(request.knownVersion, context.signal);
  };
