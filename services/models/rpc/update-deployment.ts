import { create, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import { UpdateDeploymentResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { notFound } from '#shared/errors.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { deploymentMessage } from '../catalog/snapshot.ts';
import { addressOf, deploymentFields, requireFreeAddress } from '../catalog/write-deployment.ts';
import { DeploymentEntity, ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { unprobedStatus } from '../health/first-status.ts';

export const updateDeployment =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'updateDeployment'> =>
  ({ deploymentId, settings }, context) =>
    changeCatalog(deps, context, async (em, now) => {
      const row = await em.findOne(DeploymentEntity, { id: deploymentId });
      if (row === null) throw notFound('deployment');
      const model = await em.findOneOrFail(ModelEntity, { id: row.modelId });
      const { name } = model;
      const before = deploymentFields(name, row);
      // The JSON form has the fields that are set, and no others.
      row.settings = { ...row.settings, ...(toJson(DeploymentSettingsSchema, settings!) as JsonObject) };
      const merged = fromJson(DeploymentSettingsSchema, row.settings);
      const address = addressOf(merged, name);
      await requireFreeAddress(em, model, address, row.id);
      Object.assign(row, address);
      const status = statusAfter(row.status, merged);
      if (status !== row.status) Object.assign(row, { status, statusChangedAt: now, statusReason: '' });
      const after = deploymentFields(name, row);
      return {
        answer: create(UpdateDeploymentResponseSchema, { deployment: deploymentMessage(name, row) }),
        audit:
          JSON.stringify(before) === JSON.stringify(after)
            ? null
            : { type: 'deployment_updated', target: { type: 'deployment', id: row.id }, before, after },
      };
    });

/** Switched off it is Stopped; switched on again it is to be asked first. */
function statusAfter(status: DeploymentStatus, settings: DeploymentSettings): DeploymentStatus {
  if (settings.enabled === false) return DeploymentStatus.STOPPED;
  return status === DeploymentStatus.STOPPED ? unprobedStatus(settings) : status;
}
