import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type CreateDeploymentRequest,
  CreateDeploymentRequestSchema,
  type CreateDeploymentResponse,
  CreateDeploymentResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { changeCatalog, oncePerKey } from '../catalog/change-catalog.ts';
import { deploymentMessage } from '../catalog/snapshot.ts';
import { addDeployment, addressOf, deploymentFields } from '../catalog/write-deployment.ts';
import { DeploymentEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import type { ModelsDeps } from '../index.ts';

export const createDeployment =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>) =>
  (request: CreateDeploymentRequest, context: HandlerContext): Promise<CreateDeploymentResponse> =>
    changeCatalog(
      deps,
      context,
      async (em, now) => {
        const { model: name, settings } = request;
        const model = await requireModel(em, name);
        const address = addressOf(settings!, name);
        if ((await em.count(DeploymentEntity, { modelId: model.id, ...address })) > 0) {
          throw gatewayError(ErrorReason.CONFLICT, `\`${name}\` has a deployment with this address and name already.`, {
            param: 'base_url',
          });
        }
        const row = addDeployment(em, model, settings!, now);
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
