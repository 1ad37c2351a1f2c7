import { create } from '@bufbuild/protobuf';
import { UpdateModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { modelMessage } from '../catalog/snapshot.ts';
import { modelChanges, modelFields } from '../catalog/write-model.ts';
import { requireModel } from '../db/model.repository.ts';
import { standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const updateModel =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'updateModel'> =>
  ({ name, settings }, context) =>
    changeCatalog(deps, context, async (em) => {
      const row = await requireModel(em, name);
      const before = modelFields(row);
      em.assign(row, modelChanges(settings!));
      const changes = changedFields(before, modelFields(row));
      const model = modelMessage(row, (await standingRetirement(em, row.id)) ?? undefined);
      return {
        answer: create(UpdateModelResponseSchema, { model }),
        audit: changes === null ? null : { type: 'model_updated', target: { type: 'model', id: name }, ...changes },
      };
    });
