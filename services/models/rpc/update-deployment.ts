import { create } from '@bufbuild/protobuf';
import { UpdateDeploymentResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { probeMoved } from '../catalog/probe-moved.ts';
import { deploymentMessage } from '../catalog/snapshot.ts';
import {
  addressOf,
  changeDeployment,
  deploymentFields,
  isAt,
  requireFreeAddress,
  requireSandboxModel,
  requireSecret,
} from '../catalog/write-deployment.ts';
import { DeploymentEntity, ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

/** Changes a deployment. What is known of one that moves to another server is what that answers, as for a new one. */
export const updateDeployment =
  (
    deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'upstreamSecret' | 'connectUpstream'>,
  ): ModelsRpc<'updateDeployment'> =>
  async ({ deploymentId, settings }, context) => {
    operatorCaller(context);
    requireSecret(deps, settings!.secretReference);
    const known = deps.feed.snapshot.models.flatMap(({ deployments }) => deployments);
    const moved = known
      .filter(({ id }) => id === deploymentId)
      .map((deployment) => ({ deployment, changes: settings! }));
    const statusOf = await probeMoved(deps.connectUpstream, moved, context.signal);
    return changeCatalog(deps, context, async (em, now) => {
      const row = await em.findOne(DeploymentEntity, { id: deploymentId });
      if (row === null) throw notFound('deployment');
      const model = await em.findOneOrFail(ModelEntity, { id: row.modelId });
      const { name } = model;
      const before = deploymentFields(name, row);
      const changed = changeDeployment(row, settings!, statusOf, now);
      const address = addressOf(changed, name);
      if (!isAt(row, address)) {
        requireSandboxModel(address);
        await requireFreeAddress(em, model, address);
        em.assign(row, address);
      }
      const changes = changedFields(before, deploymentFields(name, row));
      return {
        answer: create(UpdateDeploymentResponseSchema, { deployment: deploymentMessage(name, row) }),
        audit:
          changes === null
            ? null
            : { type: 'deployment_updated', target: { type: 'deployment', id: row.id }, ...changes },
      };
    });
  };
