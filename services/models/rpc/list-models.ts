import { create } from '@bufbuild/protobuf';
import { ListModelsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { listedEntries, publicModel } from '../catalog/listing.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const listModels =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>): ModelsRpc<'listModels'> =>
  (request, context) => {
    const nowMs = clock.now();
    const found = listedEntries(feed.snapshot, callerOf(context).tenantId, nowMs, request);
    if (request.page === undefined) {
      return create(ListModelsResponseSchema, { models: found.map((entry) => publicModel(entry, nowMs)) });
    }
    const rows = pageRows(request.page);
    return create(ListModelsResponseSchema, {
      models: found.slice(rows.offset, rows.offset + rows.limit).map((entry) => publicModel(entry, nowMs)),
      pageInfo: pageInfo(rows, found.length),
    });
  };
