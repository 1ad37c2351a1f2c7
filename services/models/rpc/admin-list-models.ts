import { create } from '@bufbuild/protobuf';
import { AdminListModelsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { comparable } from '#shared/comparable.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { withState } from '../catalog/listing.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

/** Answered from the snapshot, like all reads of the catalog. A model whose name equals the search comes first. */
export const adminListModels =
  ({ feed, clock }: Pick<ModelsDeps, 'feed' | 'clock'>): ModelsRpc<'adminListModels'> =>
  ({ page, search }, context) => {
    operatorCaller(context);
    const rows = pageRows(page);
    const wanted = comparable(search);
    const isExact = (name: string): number => Number(name === search);
    const found =
      wanted === ''
        ? feed.snapshot.models
        : feed.snapshot.models
            .filter(({ model }) => comparable(model!.name).includes(wanted))
            .sort((a, b) => isExact(b.model!.name) - isExact(a.model!.name));
    return create(AdminListModelsResponseSchema, {
      models: found.slice(rows.offset, rows.offset + rows.limit).map((entry) => withState(entry, clock.now())),
      pageInfo: pageInfo(rows, found.length),
    });
  };
