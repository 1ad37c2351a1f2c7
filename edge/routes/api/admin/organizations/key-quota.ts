import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Static, Type } from 'typebox';
import type { GetKeyQuotaResponse, KeyQuota, KeyQuotaSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { operatorOnly } from '../../../../access.ts';
import type { Routes } from '../../../../app.ts';
import { asCaller } from '../../../../caller.ts';
import { onlyFields } from '../../../../http/bodies.ts';
import { idSchema } from '../../../../http/json.ts';
import { orNull } from '../../../../http/nullable.ts';
import { existingOrganization } from '../organization-id.ts';

/** How many keys each user may have. */
const quotaSchema = Type.Union([
  Type.Integer({ minimum: 0, maximum: 1_000_000 }),
  Type.Literal('default'),
  Type.Literal('unlimited'),
]);

const answerSchema = Type.Object({
  keys_per_user: quotaSchema,
  effective_keys_per_user: orNull(Type.Integer({ description: 'Null means unlimited.' })),
});

/** GET and PUT /api/v1/admin/organizations/{tenant_id}/key-quota: how many keys each of its users may have. */
export const keyQuotaRoutes: Routes = (app, { auth, keys }) => {
  const params = Type.Object({ tenant_id: idSchema });

  app.get(
    '/api/v1/admin/organizations/:tenant_id/key-quota',
    {
      config: operatorOnly,
      schema: {
        summary: 'Get the key quota of an organization',
        description: 'How many API keys each of its users may have.',
        response: { 200: answerSchema },
        params,
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      return answerOf(await keys.getKeyQuota({ tenantId }, options));
    },
  );

  app.put(
    '/api/v1/admin/organizations/:tenant_id/key-quota',
    {
      config: operatorOnly,
      schema: {
        summary: 'Set the key quota of an organization',
        description: 'Lowering it deletes no keys.',
        response: { 200: answerSchema },
        params,
        body: onlyFields({ keys_per_user: quotaSchema }),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      return answerOf(await keys.setKeyQuota({ tenantId, quota: quotaOf(request.body.keys_per_user) }, options));
    },
  );
};

/** A quota as operators set it; null, as `unlimited`, means none. */
export function quotaOf(value: number | 'default' | 'unlimited' | null): MessageInitShape<typeof KeyQuotaSchema> {
  if (value === 'default') return { quota: { case: 'platformDefault', value: true } };
  if (value === 'unlimited' || value === null) return { quota: { case: 'unlimited', value: true } };
  return { quota: { case: 'keysPerUser', value } };
}

const answerOf = ({
  quota,
  effectiveKeysPerUser,
}: Pick<GetKeyQuotaResponse, 'quota' | 'effectiveKeysPerUser'>): Static<typeof answerSchema> => ({
  keys_per_user: quotaJson(quota!),
  effective_keys_per_user: effectiveKeysPerUser ?? null,
});

function quotaJson({ quota }: KeyQuota): Static<typeof quotaSchema> {
  if (quota.case === 'keysPerUser') return quota.value;
  return quota.case === 'unlimited' ? 'unlimited' : 'default';
}
