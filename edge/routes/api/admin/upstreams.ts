import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { platformModelJson, platformModelSchema } from '../../v1/models.ts';
import { baseUrlSchema, dialects, operationsNamed, operationsSchema, secretReferenceSchema } from './catalog-fields.ts';

/** In milliseconds; once an upstream has listed its models, which may take it 8 s, thousands may have to be stored. */
export const registrationTimeoutMs = 60_000;

export const registeredSchema = Type.Object({
  models: Type.Array(platformModelSchema),
  deployments_created: Type.Integer(),
});

/** POST /api/v1/admin/upstreams: registers every model which an OpenAI-compatible server lists. */
export const adminUpstreamRoutes: Routes = (app, { models }) => {
  app.post(
    '/api/v1/admin/upstreams',
    {
      config: operatorOnly,
      schema: {
        summary: 'Register an upstream',
        description:
          'Every model that an OpenAI-compatible server lists gets a deployment there. Models missing from the catalog are added; existing ones change only in the fields that the request names.',
        response: { 200: registeredSchema },
        body: onlyFields({
          base_url: baseUrlSchema,
          secret_reference: secretReferenceSchema,
          dialect: Type.Optional(dialects.schema),
          operations: Type.Optional(operationsSchema),
        }),
      },
    },
    async (request) => {
      const { base_url: baseUrl, secret_reference: secretReference, dialect, operations } = request.body;
      const answer = await models.registerUpstream(
        {
          baseUrl,
          secretReference,
          dialect: dialects.value(dialect),
          operations: operationsNamed(operations),
        },
        { ...asCaller(request), timeoutMs: registrationTimeoutMs },
      );
      return { models: answer.models.map(platformModelJson), deployments_created: answer.deploymentsCreated };
    },
  );
};
