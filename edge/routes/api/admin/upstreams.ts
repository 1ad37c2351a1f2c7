import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import type { Routes } from '../../routes.ts';
import { platformModelJson } from '../../v1/models.ts';
import { dialectNamed, dialectSchema, operationsNamed, operationsSchema } from './catalog-fields.ts';

/** POST /api/v1/admin/upstreams: registers every model which an OpenAI-compatible server lists. */
export const adminUpstreamRoutes: Routes = (app, { models }) => {
  app.post(
    '/api/v1/admin/upstreams',
    {
      config: operatorOnly,
      schema: {
        body: Type.Object(
          {
            base_url: Type.String({ minLength: 1, maxLength: 2048 }),
            secret_reference: Type.Optional(Type.String({ maxLength: 255 })),
            dialect: Type.Optional(dialectSchema),
            operations: Type.Optional(operationsSchema),
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request) => {
      const { base_url: baseUrl, secret_reference: secretReference, dialect, operations } = request.body;
      const answer = await models.registerUpstream(
        {
          baseUrl,
          secretReference: secretReference ?? '',
          dialect: dialectNamed(dialect),
          operations: operationsNamed(operations),
        },
        asCaller(request),
      );
      return { models: answer.models.map(platformModelJson), deployments_created: answer.deploymentsCreated };
    },
  );
};
