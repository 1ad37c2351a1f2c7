import { create } from '@bufbuild/protobuf';
import { GetModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { describedModel } from '../catalog/listing.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const getModel =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>): ModelsRpc<'getModel'> =>
  (request, context) =>
    create(GetModelResponseSchema, {
      model: describedModel(feed.snapshot, request.name, callerOf(context).tenantId, clock.now()),
    });
