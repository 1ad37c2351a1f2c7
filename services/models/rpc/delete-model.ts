import { create } from '@bufbuild/protobuf';
import { DeleteModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { modelFields } from '../catalog/write-model.ts';
import { DeploymentEntity, GrantEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import { scheduleOf, standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { checkDeletable } from '../domain/retirement-changes.ts';
import { cancelWithdrawalMails } from '../retirements/plan-reminders.ts';

/** The model's row stays, for the prices and retirements that name it. */
export const deleteModel =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'deleteModel'> =>
  ({ name }, context) =>
    changeCatalog(deps, context, async (em, now) => {
      const row = await requireModel(em, name);
      const retirement = await standingRetirement(em, row.id);
      checkDeletable(name, retirement && scheduleOf(retirement), now.getTime());
      await cancelWithdrawalMails(em, row.id);
      row.deletedAt = now;
      await em.nativeDelete(DeploymentEntity, { modelId: row.id });
      await em.nativeDelete(GrantEntity, { modelId: row.id });
      return {
        answer: create(DeleteModelResponseSchema),
        audit: { type: 'model_deleted', target: { type: 'model', id: name }, before: modelFields(row) },
      };
    });
