import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type GetRetirementRequest,
  GetRetirementResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { type Catalog, isGranted } from '../catalog/catalog.ts';

export const getRetirement =
  ({ catalog }: { catalog: Catalog }) =>
  (request: GetRetirementRequest, context: HandlerContext) => {
    const model = catalog.find(request.model);
    const known = model !== undefined && isGranted(model, callerOf(context).tenantId);
    return create(GetRetirementResponseSchema, { retirement: known ? model.publishedRetirement : undefined });
  };
