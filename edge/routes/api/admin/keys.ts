import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idFilter, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import { keyIdInPath, keyIdParams, keyStatuses, keyTypeField, keyTypes } from '../api-keys/key-fields.ts';
import { adminKeyJson, adminKeySchema } from '../api-keys/key-json.ts';
import { givenLimits, limitsSchema } from '../rate-limit-fields.ts';

/** /api/v1/admin/keys: any key, for platform operators. */
export const adminKeyRoutes: Routes = (app, { keys }) => {
  app.get(
    '/api/v1/admin/keys',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the keys of all organizations',
        description: 'Newest first.',
        response: { 200: pageOf(adminKeySchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          tenant_id: idFilter(),
          user_id: idFilter(),
          key_type: keyTypeField,
          status: Type.Optional(keyStatuses.schema),
          search: Type.Optional(
            Type.String({
              maxLength: 255,
              description:
                'Part of the name or preview, or the preview of a secret that is still valid after a rotation. A whole secret finds the key that it opens, but proxies may keep addresses.',
            }),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, tenant_id: tenantId, user_id: userId, key_type, status, search } = request.query;
      const answer = await keys.adminListKeys(
        {
          page: { page, limit },
          tenantId,
          userId,
          keyType: keyTypes.value(key_type),
          status: keyStatuses.value(status),
          search,
        },
        asCaller(request),
      );
      return { data: answer.keys.map(adminKeyJson), pagination: paginationJson(answer.page) };
    },
  );

  app.post(
    '/api/v1/admin/keys/:key_id/revoke',
    {
      config: operatorOnly,
      schema: {
        summary: 'Revoke a key',
        description: 'Every call with the key is refused from then on. This cannot be undone.',
        response: { 200: adminKeySchema },
        params: keyIdParams,
        body: nullable(onlyFields({ reason: Type.Optional(Type.String({ maxLength: 1000 })) })),
      },
    },
    async (request) => {
      const { key } = await keys.revokeKey(
        { keyId: keyIdInPath(request.params.key_id), reason: request.body?.reason },
        asCaller(request),
      );
      return adminKeyJson(key!);
    },
  );

  app.put(
    '/api/v1/admin/keys/:key_id/rate-limits',
    {
      config: operatorOnly,
      schema: {
        summary: 'Set the rate limits of a key',
        description:
          "For a limit that is absent or null, the organization's applies, or else the plan's. A management key cannot have any, since only model calls are limited.",
        response: { 200: adminKeySchema },
        params: keyIdParams,
        body: limitsSchema,
      },
    },
    async (request) => {
      const { key } = await keys.setKeyRateLimits(
        { keyId: keyIdInPath(request.params.key_id), rateLimits: givenLimits(request.body) },
        asCaller(request),
      );
      return adminKeyJson(key!);
    },
  );

  app.patch(
    '/api/v1/admin/keys/:key_id/rate-limits',
    {
      config: operatorOnly,
      schema: {
        summary: 'Change rate limits of a key',
        description: "A limit that is absent stays as it is; for one that is null, the organization's applies again.",
        response: { 200: adminKeySchema },
        params: keyIdParams,
        body: limitsSchema,
      },
    },
    async (request) => {
      const { key } = await keys.setKeyRateLimits(
        { keyId: keyIdInPath(request.params.key_id), changes: givenLimits(request.body) },
        asCaller(request),
      );
      return adminKeyJson(key!);
    },
  );
};
