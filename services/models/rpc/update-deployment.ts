import { create, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import { type DeploymentSettings, DeploymentSettingsSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { UpdateDeploymentResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { deploymentMessage } from '../catalog/snapshot.ts';
import {
  addressOf,
  changeDeployment,
  deploymentFields,
  isAt,
  mergedSettings,
  requireFreeAddress,
  requireSandboxModel,
  requireSecret,
  setStatus,
} from '../catalog/write-deployment.ts';
import { DeploymentEntity, ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { serverOf } from '../domain/deployment-settings.ts';
import { firstStatus, unprobed } from '../health/first-status.ts';

/** Changes a deployment. What is known of one that moves to another server is what that answers, as for a new one. */
export const updateDeployment =
  (
    deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'upstreamSecret' | 'connectUpstream'>,
  ): ModelsRpc<'updateDeployment'> =>
  async ({ deploymentId, settings }, context) => {
    operatorCaller(context);
    requireSecret(deps, settings!.secretReference);
    // Probed before the catalog is locked, so that a slow upstream holds nobody up.
    const probed = await probeIfMoved(deps, deploymentId, settings!, context.signal);
    return changeCatalog(deps, context, async (em, now) => {
      const row = await em.findOne(DeploymentEntity, { id: deploymentId });
      if (row === null) throw notFound('deployment');
      const model = await em.findOneOrFail(ModelEntity, { id: row.modelId });
      const { name } = model;
      const before = deploymentFields(name, row);
      const server = serverOf(fromJson(DeploymentSettingsSchema, row.settings));
      const changed = changeDeployment(row, settings!, now);
      const address = addressOf(changed, name);
      if (!isAt(row, address)) {
        requireSandboxModel(address);
        await requireFreeAddress(em, model, address);
        Object.assign(row, address);
      }
      if (serverOf(changed) !== server) {
        // Somebody else may have moved it meanwhile.
        setStatus(row, probed?.server === serverOf(changed) ? probed : unprobed(changed), now);
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

/** Where the changes move a deployment, and what that answers; undefined when it stays where it is. */
async function probeIfMoved(
  { feed, connectUpstream }: Pick<ModelsDeps, 'feed' | 'connectUpstream'>,
  deploymentId: string,
  changes: DeploymentSettings,
  signal: AbortSignal,
): Promise<(Judged & { server: string }) | undefined> {
  const deployment = feed.snapshot.models.flatMap((model) => model.deployments).find(({ id }) => id === deploymentId);
  if (deployment === undefined) return undefined;
  const changed = mergedSettings(toJson(DeploymentSettingsSchema, deployment.settings!) as JsonObject, changes);
  const server = serverOf(changed);
  if (server === serverOf(deployment.settings!)) return undefined;
  requireSandboxModel(addressOf(changed, deployment.model));
  return { server, ...(await firstStatus(connectUpstream, changed, signal)) };
}
