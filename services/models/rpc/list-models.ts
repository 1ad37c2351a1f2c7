import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { type ListModelsRequest, ListModelsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { listedModels } from '../catalog/listing.ts';
import type { ModelsDeps } from '../deps.ts';

export const listModels =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>) =>
  (_request: ListModelsRequest, context: HandlerContext) =>
    create(ListModelsResponseSchema, { models: listedModels(feed.snapshot, callerOf(context).tenantId, clock.now()) });
