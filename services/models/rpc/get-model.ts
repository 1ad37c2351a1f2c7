import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { type GetModelRequest, GetModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { describedModel } from '../catalog/listing.ts';
import type { ModelsDeps } from '../deps.ts';

export const getModel =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>) =>
  (request: GetModelRequest, context: HandlerContext) =>
    create(GetModelResponseSchema, {
      model: describedModel(feed.snapshot, request.name, callerOf(context).tenantId, clock.now()),
    });
