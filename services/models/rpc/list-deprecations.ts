import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type ListDeprecationsRequest,
  ListDeprecationsResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { deprecatedModels } from '../catalog/listing.ts';
import type { ModelsDeps } from '../deps.ts';

export const listDeprecations =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>) =>
  (request: ListDeprecationsRequest, context: HandlerContext) =>
    create(ListDeprecationsResponseSchema, {
      models: deprecatedModels(feed.snapshot, request.model, callerOf(context).tenantId, clock.now()),
    });
