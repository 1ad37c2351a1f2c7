import { create } from '@bufbuild/protobuf';
import { ListDeprecationsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { deprecatedModels } from '../catalog/listing.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const listDeprecations =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>): ModelsRpc<'listDeprecations'> =>
  (request, context) =>
    create(ListDeprecationsResponseSchema, {
      models: deprecatedModels(feed.snapshot, request.model, callerOf(context).tenantId, clock.now()),
    });
