import { create } from '@bufbuild/protobuf';
import { DeleteModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { modelFields } from '../catalog/write-model.ts';
import { DeploymentEntity, GrantEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import { scheduleOf, standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { retirementState } from '../domain/retirement.ts';
import { changeRetirement } from '../retirements/change-retirement.ts';
import { cancelReminders } from '../retirements/plan-reminders.ts';
import { refuseSuccessorOfOthers } from '../retirements/successors.ts';

/** The model's row stays, for the prices and retirements that name it. */
export const deleteModel =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'onRetirementChange'>): ModelsRpc<'deleteModel'> =>
  ({ name }, context) =>
    changeRetirement(deps, context, async (em, now) => {
      const row = await requireModel(em, name, 'name');
      await refuseSuccessorOfOthers(em, name, 'deleted');
      const retirement = await standingRetirement(em, row.id);
      if (retirement !== null && retirementState(scheduleOf(retirement), now.getTime()) !== 'retired') {
        retirement.withdrawnAt = now;
        await cancelReminders(em, retirement.id);
      }
      row.deletedAt = now;
      await em.nativeDelete(DeploymentEntity, { modelId: row.id });
      await em.nativeDelete(GrantEntity, { modelId: row.id });
      return {
        answer: create(DeleteModelResponseSchema),
        audit: { type: 'model_deleted', target: { type: 'model', id: name }, before: modelFields(row) },
      };
    });
