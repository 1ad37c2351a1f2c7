import { create } from '@bufbuild/protobuf';
import { type Static, type TSchema, Type } from 'typebox';
import { type CatalogModel, CatalogModelSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { type ModelSettingsSchema, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { PublicName, WholeMessage } from '#shared/whole-message.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { idSchema, noBody, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { platformModelJson, platformModelSchema } from '../../v1/models.ts';
import { catalogModel, modelInPath, modelNameSchema, operationsNamed, operationsSchema } from './catalog-fields.ts';
import { adminDeploymentJson, deploymentSchema } from './deployments.ts';
import { adminPriceJson, priceSchema } from './prices.ts';

const visibilities = spelling({ public: Visibility.PUBLIC, private: Visibility.PRIVATE });
const tokensSchema = (description: string) =>
  nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000, description }));
const settings = {
  display_name: Type.Optional(modelNameSchema),
  owned_by: Type.Optional(modelNameSchema),
  operations: Type.Optional(operationsSchema),
  context_window: tokensSchema('Prompt and completion together, in tokens; null or 0 means unknown.'),
  max_output_tokens: tokensSchema('In tokens; null or 0 means unknown.'),
  visibility: Type.Optional(visibilities.schema),
} satisfies Record<PublicName<keyof WholeMessage<typeof ModelSettingsSchema>>, TSchema>;
const settingsSchema = onlyFields(settings);

/** /api/v1/admin/models: all models, retired ones included. */
export const adminModelRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/models',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the models of the catalog',
        description: 'All of them by name, including private and retired ones.',
        response: { 200: pageOf(adminModelSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          search: Type.Optional(
            Type.String({
              maxLength: 255,
              description: 'Part of the name; an exact match comes first.',
            }),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, search } = request.query;
      const answer = await models.adminListModels({ page: { page, limit }, search }, asCaller(request));
      return { data: answer.models.map(adminModelJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/models',
    {
      config: operatorOnly,
      schema: {
        summary: 'Create a model',
        description: 'It serves once it has a deployment.',
        idempotent: true,
        response: { 201: adminModelSchema },
        body: onlyFields({ name: modelNameSchema, ...settings, operations: operationsSchema }),
      },
    },
    async (request, reply) => {
      const { name, ...fields } = request.body;
      const { model } = await models.createModel(
        { name, settings: modelSettings(fields), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      // The model as it was created: by the time of a repeat it may have been changed or deleted.
      return reply.code(201).send(adminModelJson(create(CatalogModelSchema, { model: model! })));
    },
  );

  app.get(
    '/api/v1/admin/models/*',
    { config: operatorOnly, schema: { summary: 'Get a model of the catalog', response: { 200: adminModelSchema } } },
    async (request) => adminModelJson(await catalogModel(models, modelInPath(request), asCaller(request))),
  );

  app.patch(
    '/api/v1/admin/models/*',
    {
      config: operatorOnly,
      schema: {
        summary: 'Change a model',
        description:
          'A public model whose retirement is announced must stay public, and the successor of a retiring model must stay usable for everybody who may use that model: otherwise it is a conflict (409).',
        response: { 200: adminModelSchema },
        body: settingsSchema,
      },
    },
    async (request) => {
      const name = modelInPath(request);
      await models.updateModel({ name, settings: modelSettings(request.body) }, asCaller(request));
      return adminModelJson(await catalogModel(models, name, asCaller(request)));
    },
  );

  app.delete(
    '/api/v1/admin/models/*',
    {
      config: operatorOnly,
      schema: {
        summary: 'Delete a model',
        description:
          'Deletes its deployments and grants too; usage and prices stay. A model that is retired, or whose retirement is announced, is a conflict (409). To take a model away from its users, retire it instead.',
        response: { 204: noBody('Deleted.') },
      },
    },
    async (request, reply) => {
      await models.deleteModel({ name: modelInPath(request) }, asCaller(request));
      return reply.code(204).send();
    },
  );
};

/** Null makes a number of tokens unknown again. */
const modelSettings = (fields: Type.Static<typeof settingsSchema>): WholeMessage<typeof ModelSettingsSchema> => ({
  displayName: fields.display_name,
  ownedBy: fields.owned_by,
  operations: operationsNamed(fields.operations),
  contextWindow: fields.context_window === null ? 0 : fields.context_window,
  maxOutputTokens: fields.max_output_tokens === null ? 0 : fields.max_output_tokens,
  visibility: visibilities.value(fields.visibility),
});

/** A model with everything that operators decide about it. */
export const adminModelSchema = Type.Object(
  {
    ...platformModelSchema.properties,
    deployments: Type.Array(deploymentSchema),
    prices: Type.Array(priceSchema, { description: 'All its prices, by when they take effect; those of before too.' }),
    granted_tenant_ids: Type.Array(idSchema, { description: 'The organizations to which a private model is granted.' }),
  },
  { $id: 'CatalogModel' },
);
export const adminModelJson = (entry: CatalogModel): Static<typeof adminModelSchema> => ({
  ...platformModelJson(entry.model!),
  deployments: entry.deployments.map(adminDeploymentJson),
  prices: entry.prices.map(adminPriceJson),
  granted_tenant_ids: entry.grantedTenantIds,
});
