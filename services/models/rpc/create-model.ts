import { create } from '@bufbuild/protobuf';
import { CreateModelRequestSchema, CreateModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { changeCatalog, oncePerKey } from '../catalog/change-catalog.ts';
import { modelMessage } from '../catalog/snapshot.ts';
import { addModel, modelFields } from '../catalog/write-model.ts';
import { findModel } from '../db/model.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const createModel =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'createModel'> =>
  (request, context) =>
    changeCatalog(
      deps,
      context,
      async (em, now) => {
        const { name, settings } = request;
        if (settings!.operations.length === 0) {
          throw invalidRequest('operations', 'A model needs at least one of `operations`.', 'missing_required_field');
        }
        if ((await findModel(em, name)) !== null) {
          throw gatewayError(ErrorReason.CONFLICT, `A model \`${name}\` already exists.`, { param: 'name' });
        }
        const row = addModel(em, name, settings!, now);
        // The answer includes the defaults of the table.
        await em.flush();
        return {
          answer: create(CreateModelResponseSchema, { model: modelMessage(row, undefined) }),
          audit: { type: 'model_created', target: { type: 'model', id: name }, after: modelFields(row) },
        };
      },
      oncePerKey(CreateModelRequestSchema, CreateModelResponseSchema, request),
    );
