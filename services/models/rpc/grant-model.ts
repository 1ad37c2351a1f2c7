import { create } from '@bufbuild/protobuf';
import { GrantModelRequestSchema, GrantModelResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changeCatalog, oncePerKey } from '../catalog/change-catalog.ts';
import { grantMessage } from '../catalog/snapshot.ts';
import { GrantEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const grantModel =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'grantModel'> =>
  (request, context) =>
    changeCatalog(
      deps,
      context,
      async (em, now) => {
        const { model: name } = request;
        const tenantId = request.tenantId.toLowerCase();
        const model = await requireModel(em, name);
        const standing = await em.findOne(GrantEntity, { modelId: model.id, tenantId });
        const grant = standing ?? em.create(GrantEntity, { modelId: model.id, tenantId, grantedAt: now });
        if (standing === null) em.persist(grant);
        return {
          answer: create(GrantModelResponseSchema, { grant: grantMessage(name, grant) }),
          audit:
            standing === null
              ? { type: 'model_granted', target: { type: 'model', id: name }, after: { tenant_id: tenantId } }
              : null,
        };
      },
      oncePerKey(GrantModelRequestSchema, GrantModelResponseSchema, request),
    );
