import { create } from '@bufbuild/protobuf';
import {
  CreateDeploymentRequestSchema,
  CreateDeploymentResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { changeCatalog, oncePerKey } from '../catalog/change-catalog.ts';
import { deploymentMessage } from '../catalog/snapshot.ts';
import {
  addDeployment,
  addressOf,
  deploymentFields,
  requireFreeAddress,
  requireSandboxModel,
  requireSecret,
} from '../catalog/write-deployment.ts';
import { requireModel } from '../db/model.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { firstStatus } from '../health/first-status.ts';

export const createDeployment =
  (
    deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'upstreamSecret' | 'connectUpstream'>,
  ): ModelsRpc<'createDeployment'> =>
  async (request, context) => {
    operatorCaller(context);
    const { model: name, settings } = request;
    const address = addressOf(settings!, name);
    requireSandboxModel(address);
    requireSecret(deps, settings!.secretReference);
    // Probed before the catalog is locked, so that a slow upstream holds nobody up.
    const first = await firstStatus(deps.connectUpstream, settings!, context.signal);
    return changeCatalog(
      deps,
      context,
      async (em, now) => {
        const model = await requireModel(em, name);
        await requireFreeAddress(em, model, address);
        const row = addDeployment(em, model, settings!, first, now);
        return {
          answer: create(CreateDeploymentResponseSchema, { deployment: deploymentMessage(name, row) }),
          audit: {
            type: 'deployment_created',
            target: { type: 'deployment', id: row.id },
            after: deploymentFields(name, row),
          },
        };
      },
      oncePerKey(CreateDeploymentRequestSchema, CreateDeploymentResponseSchema, request),
    );
  };
