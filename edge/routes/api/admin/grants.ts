import { type Static, Type } from 'typebox';
import type { Grant } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ErrorReason, hasReason, notFound } from '#shared/errors.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { idSchema, isoTime, isoTimeSchema, noBody, pageOf, pageOfItems, pageQuerySchema } from '../../../http/json.ts';
import { catalogModels, modelNameSchema } from './catalog-fields.ts';

/** A model, and an organization. */
const grantedSchema = onlyFields({ model: modelNameSchema, tenant_id: idSchema });

/** /api/v1/admin/grants: for which organizations private models exist. */
export const adminGrantRoutes: Routes = (app, { models, auth }) => {
  app.get(
    '/api/v1/admin/grants',
    {
      config: operatorOnly,
      schema: {
        summary: 'List grants',
        description: 'The organizations for which private models exist: by model, the oldest first.',
        response: { 200: pageOf(grantSchema) },
        querystring: Type.Object({ ...pageQuerySchema, model: Type.Optional(modelNameSchema) }),
      },
    },
    async (request) => {
      const entries = await catalogModels(models, request.query.model ?? '', asCaller(request));
      return pageOfItems(
        entries.flatMap(({ grants }) => grants),
        grantJson,
        request.query,
      );
    },
  );

  app.post(
    '/api/v1/admin/grants',
    {
      config: operatorOnly,
      schema: {
        summary: 'Grant a model to an organization',
        description: 'A private model exists only for organizations to which it is granted.',
        idempotent: true,
        response: { 201: grantSchema },
        body: grantedSchema,
      },
    },
    async (request, reply) => {
      const { model, tenant_id: tenantId } = request.body;
      const options = asCaller(request);
      await auth.adminGetOrganization({ tenantId }, options).catch((error) => {
        if (!hasReason(error, ErrorReason.NOT_FOUND)) throw error;
        throw notFound('organization', { param: 'tenant_id' });
      });
      const { grant } = await models.grantModel({ model, tenantId, idempotencyKey: idempotencyKey(request) }, options);
      return reply.code(201).send(grantJson(grant!));
    },
  );

  app.delete(
    '/api/v1/admin/grants',
    {
      config: operatorOnly,
      schema: {
        summary: 'Revoke a grant',
        response: { 204: noBody('The model no longer exists for the organization.') },
        querystring: grantedSchema,
      },
    },
    async (request, reply) => {
      const { model, tenant_id: tenantId } = request.query;
      await models.revokeGrant({ model, tenantId }, asCaller(request));
      return reply.code(204).send();
    },
  );
};

const grantSchema = Type.Object(
  { model: Type.String(), tenant_id: idSchema, granted_at: isoTimeSchema },
  { $id: 'Grant' },
);
export const grantJson = ({ model, tenantId, grantedAt }: Grant): Static<typeof grantSchema> => ({
  model,
  tenant_id: tenantId,
  granted_at: isoTime(grantedAt!),
});
