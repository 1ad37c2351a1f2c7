import { create } from '@bufbuild/protobuf';
import { ListModelsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { listedModels } from '../catalog/listing.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const listModels =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>): ModelsRpc<'listModels'> =>
  (_request, context) =>
    create(ListModelsResponseSchema, { models: listedModels(feed.snapshot, callerOf(context).tenantId, clock.now()) });
