import { create } from '@bufbuild/protobuf';
import { DeleteDeploymentResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { notFound } from '#shared/errors.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { deploymentFields } from '../catalog/write-deployment.ts';
import { DeploymentEntity, ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const deleteDeployment =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'deleteDeployment'> =>
  ({ deploymentId }, context) =>
    changeCatalog(deps, context, async (em) => {
      const row = await em.findOne(DeploymentEntity, { id: deploymentId });
      if (row === null) throw notFound('deployment');
      const { name } = await em.findOneOrFail(ModelEntity, { id: row.modelId });
      em.remove(row);
      return {
        answer: create(DeleteDeploymentResponseSchema),
        audit: {
          type: 'deployment_deleted',
          target: { type: 'deployment', id: deploymentId },
          before: deploymentFields(name, row),
        },
      };
    });
