import { Type } from 'typebox';
import type { CatalogModel } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { idempotencyKey, nameInPath, pageQuerySchema, type Routes } from '../../routes.ts';
import { platformModelJson } from '../../v1/models.ts';
import { catalogModel, modelNameSchema, operationsNamed, operationsSchema } from './catalog-fields.ts';
import { adminDeploymentJson } from './deployments.ts';
import { adminPriceJson } from './prices.ts';

const visibilities = spelling({ public: Visibility.PUBLIC, private: Visibility.PRIVATE });
const tokensSchema = nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }));
const settings = {
  display_name: Type.Optional(modelNameSchema),
  owned_by: Type.Optional(modelNameSchema),
  operations: Type.Optional(operationsSchema),
  context_window: tokensSchema,
  max_output_tokens: tokensSchema,
  visibility: Type.Optional(visibilities.schema),
};
const settingsSchema = Type.Object(settings, { additionalProperties: false });

/** /api/v1/admin/models: all models, retired ones included. */
export const adminModelRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/models',
    {
      config: operatorOnly,
      schema: {
        querystring: Type.Object({ ...pageQuerySchema, search: Type.Optional(Type.String({ maxLength: 255 })) }),
      },
    },
    async (request) => {
      const { page, limit, search } = request.query;
      const answer = await models.adminListModels({ page: { page, limit }, search: search ?? '' }, asCaller(request));
      return { data: answer.models.map(adminModelJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/models',
    {
      config: operatorOnly,
      schema: { body: Type.Object({ name: modelNameSchema, ...settings }, { additionalProperties: false }) },
    },
    async (request, reply) => {
      const { name, ...fields } = request.body;
      await models.createModel(
        { name, settings: modelSettings(fields), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send(adminModelJson(await catalogModel(models, name, request)));
    },
  );

  app.get('/api/v1/admin/models/*', { config: operatorOnly }, async (request) =>
    adminModelJson(await catalogModel(models, nameInPath(request), request)),
  );

  app.patch('/api/v1/admin/models/*', { config: operatorOnly, schema: { body: settingsSchema } }, async (request) => {
    const name = nameInPath(request);
    await models.updateModel({ name, settings: modelSettings(request.body) }, asCaller(request));
    return adminModelJson(await catalogModel(models, name, request));
  });

  app.delete('/api/v1/admin/models/*', { config: operatorOnly }, async (request, reply) => {
    await models.deleteModel({ name: nameInPath(request) }, asCaller(request));
    return reply.code(204).send();
  });
};

/** Null takes a number of tokens back to unknown. */
const modelSettings = (fields: Type.Static<typeof settingsSchema>) => ({
  displayName: fields.display_name,
  ownedBy: fields.owned_by,
  operations: operationsNamed(fields.operations),
  contextWindow: fields.context_window === null ? 0 : fields.context_window,
  maxOutputTokens: fields.max_output_tokens === null ? 0 : fields.max_output_tokens,
  visibility: visibilities.value(fields.visibility),
});

const adminModelJson = (entry: CatalogModel) => ({
  ...platformModelJson(entry.model!),
  deployments: entry.deployments.map(adminDeploymentJson),
  prices: entry.prices.map(adminPriceJson),
  granted_tenant_ids: entry.grantedTenantIds,
});
