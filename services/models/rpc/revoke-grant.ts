import { create } from '@bufbuild/protobuf';
import { RevokeGrantResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { GrantEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

/** Revoking what was never granted changes nothing. */
export const revokeGrant =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'revokeGrant'> =>
  (request, context) =>
    changeCatalog(deps, context, async (em) => {
      const { model: name } = request;
      const tenantId = request.tenantId.toLowerCase();
      const model = await requireModel(em, name);
      const removed = await em.nativeDelete(GrantEntity, { modelId: model.id, tenantId });
      return {
        answer: create(RevokeGrantResponseSchema),
        audit:
          removed === 0
            ? null
            : { type: 'model_grant_revoked', target: { type: 'model', id: name }, before: { tenant_id: tenantId } },
      };
    });
