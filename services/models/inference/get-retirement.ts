import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type GetRetirementRequest,
  GetRetirementResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { fieldSet, scanObject } from '../bytes/json-scan.ts';
import { type Catalog, isGranted } from '../catalog/catalog.ts';

export const getRetirement =
  ({ catalog }: { catalog: Catalog }) =>
  (request: GetRetirementRequest, context: HandlerContext) => {
    const model = catalog.find(request.model || modelNamed(request.body));
    const published =
      model !== undefined && isGranted(model, callerOf(context).tenantId) ? model.publishedRetirement : undefined;
    return create(GetRetirementResponseSchema, published && { retirement: published, model: model!.name });
  };

const fields = fieldSet('model');

/** Not with JSON.parse: a body that was refused for its million members would end up blocking everybody else. */
function modelNamed(body: Uint8Array): string {
  const scan = scanObject(asBuffer(body), fields);
  return (typeof scan === 'string' ? undefined : scan.string('model')) ?? '';
}
