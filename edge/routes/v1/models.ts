import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { DeploymentStatus, type Model, type Price, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { allowsModel } from '#shared/caller-constraints.ts';
import { modelNotAllowed } from '#shared/errors.ts';
import { operationName } from '#shared/operations.ts';
import { ratesJson } from '#shared/rates-json.ts';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { idSchema, isoTime, pageQuerySchema, paginationJson, paginationSchema, usdSchema } from '../../http/json.ts';
import { nameInPath } from '../../http/name-in-path.ts';
import { orNull } from '../../http/nullable.ts';
import { spelling } from '../../http/spelling.ts';
import { announcingErrors } from '../../inference/errors.ts';
import { retirementHeaders } from '../../openai/retirement-headers.ts';
import { operations, operationsNamed } from '../api/admin/catalog-fields.ts';

/** The model listing (openai-contract.md section 4); /api/v1 adds what the portal shows (decisions.md, Models). */
export const modelRoutes: Routes = (app, deps) => {
  const { models, metrics, publicUrl } = deps;
  // Clients offer their users what is listed, so the list holds only what this key may call.
  const namesFor = ({ principal }: FastifyRequest) => principal!.constraints.modelAllowlist;
  const config = { access: { surface: 'api', scope: 'models:list' } } as const;
  const description = 'The models that the caller may call. Retired models are not listed.';

  app.get(
    '/v1/models',
    { config, schema: { summary: 'List models', description, response: { 200: listOf(openaiModelSchema) } } },
    async (request) => {
      const answer = await models.listModels({ names: namesFor(request) }, asCaller(request));
      return { object: 'list' as const, data: answer.models.map(openaiModelJson) };
    },
  );

  app.get(
    '/api/v1/models',
    {
      config,
      schema: {
        summary: 'List models in detail',
        description: `${description} With neither \`page\` nor \`limit\` all are listed at once.`,
        response: {
          200: Type.Object({
            ...listOf(platformModelSchema).properties,
            pagination: Type.Optional(paginationSchema),
          }),
        },
        querystring: Type.Object({
          ...pageQuerySchema,
          search: Type.Optional(
            Type.String({
              maxLength: 255,
              description:
                'Words in the name, display name or owner, in any order; an exact match of the name comes first.',
            }),
          ),
          operation: Type.Optional(
            Type.Array(operations.schema, {
              maxItems: 100,
              description: 'May be given several times, for models with any of them.',
            }),
          ),
          is_serviceable: Type.Optional(Type.Boolean()),
          is_retiring: Type.Optional(Type.Boolean({ description: 'Whether a retirement is announced.' })),
        }),
      },
    },
    async (request) => {
      const { page, limit, search, operation, is_serviceable, is_retiring } = request.query;
      const answer = await models.listModels(
        {
          page: page === undefined && limit === undefined ? undefined : { page, limit },
          search,
          operations: operationsNamed(operation),
          isServiceable: is_serviceable,
          isRetiring: is_retiring,
          names: namesFor(request),
        },
        asCaller(request),
      );
      return {
        object: 'list' as const,
        data: answer.models.map(platformModelJson),
        ...(answer.pageInfo === undefined ? {} : { pagination: paginationJson(answer.pageInfo) }),
      };
    },
  );

  for (const prefix of ['/v1', '/api/v1'] as const) {
    const [modelSchema, modelJson, inDetail] =
      prefix === '/v1'
        ? [openaiModelSchema, openaiModelJson, '']
        : [platformModelSchema, platformModelJson, ' in detail'];
    app.get(
      `${prefix}/models/deprecations`,
      {
        config,
        schema: {
          summary: `List deprecations${inDetail}`,
          description: 'Models whose retirement is announced, and retired models.',
          response: { 200: listOf(modelSchema) },
        },
      },
      async (request) => {
        const answer = await models.listDeprecations({}, asCaller(request));
        return { object: 'list' as const, data: answer.models.map(modelJson) };
      },
    );

    app.get(
      `${prefix}/models/*`,
      {
        config: { access: { surface: 'api', scope: 'models:retrieve' } },
        schema: { summary: `Get a model${inDetail}`, announcesRetirement: true, response: { 200: modelSchema } },
        errorHandler: announcingErrors(deps, nameInPath),
      },
      async (request, reply) => {
        const name = nameInPath(request);
        // A slash too many, not the name of a model.
        if (name === '') return reply.callNotFound();
        const { model } = await models.getModel({ name }, asCaller(request));
        if (!allowsModel(request.principal!.constraints, name)) throw modelNotAllowed(name);
        if (model!.retirement !== undefined) metrics.retiringModel(name);
        return reply.headers(retirementHeaders(name, model!.retirement, publicUrl)).send(modelJson(model!));
      },
    );
  }
};

const listOf = <Item extends TSchema>(model: Item) =>
  Type.Object({ object: Type.Literal('list'), data: Type.Array(model) });

const openaiModelSchema = Type.Object(
  {
    id: Type.String({ description: 'The name, to be used as `model` in a call. It may contain slashes and colons.' }),
    object: Type.Literal('model'),
    created: Type.Integer({ description: 'Unix time in seconds.' }),
    owned_by: Type.String(),
    shutdown_date: orNull(Type.String({ format: 'date', description: 'The day of `sunset_at`.' })),
    deprecated_at: orNull(Type.String({ format: 'date-time', description: 'When the retirement was announced.' })),
    sunset_at: orNull(
      Type.String({
        format: 'date-time',
        description: 'When the model retires; null while no date is set. The date may move.',
      }),
    ),
    replacement_model_name: orNull(Type.String()),
    is_serviceable: Type.Boolean(),
    retirement_note: orNull(Type.String({ description: 'Why there is no successor.' })),
  },
  { $id: 'Model' },
);

function openaiModelJson(model: Model): Static<typeof openaiModelSchema> {
  const retirement = model.retirement;
  return {
    id: model.name,
    object: 'model',
    created: model.createdAt === undefined ? 0 : Math.floor(timestampMs(model.createdAt) / 1000),
    owned_by: model.ownedBy,
    shutdown_date: isoTime(retirement?.sunsetAt)?.slice(0, 10) ?? null,
    deprecated_at: isoTime(retirement?.deprecatedAt),
    sunset_at: isoTime(retirement?.sunsetAt),
    replacement_model_name: retirement?.replacementModelName || null,
    is_serviceable: model.isServiceable,
    retirement_note: retirement?.retirementNote || null,
  };
}

/** A deployment's status as the API names it. */
export const deploymentStatuses = spelling({
  Pending: DeploymentStatus.PENDING,
  Running: DeploymentStatus.RUNNING,
  Degraded: DeploymentStatus.DEGRADED,
  Stopped: DeploymentStatus.STOPPED,
  Failed: DeploymentStatus.FAILED,
});
export const ratesSchema = Type.Object(
  {
    input_per_million_tokens_usd: usdSchema,
    cached_input_per_million_tokens_usd: usdSchema,
    output_per_million_tokens_usd: usdSchema,
    per_image_usd: usdSchema,
    per_audio_second_usd: usdSchema,
    per_million_characters_usd: usdSchema,
    per_request_usd: usdSchema,
  },
  { $id: 'Rates' },
);

const nextRatesSchema = Type.Object({
  effective_from: Type.String({ format: 'date-time', description: 'From when on they replace `prices`.' }),
  ...ratesSchema.properties,
});

export const platformModelSchema = Type.Object(
  {
    ...openaiModelSchema.properties,
    display_name: Type.String(),
    operations: Type.Array(Type.String({ description: 'Such as `chat_completions`.' })),
    context_window: orNull(Type.Integer({ description: 'Prompt and completion together, in tokens.' })),
    max_output_tokens: orNull(Type.Integer()),
    visibility: Type.Enum(['public', 'private']),
    prices: orNull(ratesSchema),
    next_prices: orNull(nextRatesSchema),
    deployments: Type.Array(Type.Object({ id: idSchema, status: deploymentStatuses.schema })),
  },
  { $id: 'DetailedModel' },
);
export const platformModelJson = (model: Model): Static<typeof platformModelSchema> => ({
  ...openaiModelJson(model),
  display_name: model.displayName,
  operations: model.operations.map(operationName),
  context_window: model.contextWindow || null,
  max_output_tokens: model.maxOutputTokens || null,
  visibility: model.visibility === Visibility.PRIVATE ? 'private' : 'public',
  prices: model.price?.rates === undefined ? null : ratesJson(model.price.rates),
  next_prices: nextRatesJson(model.nextPrice),
  deployments: model.deployments.map(({ id, status }) => ({ id, status: deploymentStatuses.name(status) })),
});

const nextRatesJson = (price: Price | undefined): Static<typeof nextRatesSchema> | null =>
  price?.rates === undefined ? null : { effective_from: isoTime(price.effectiveFrom)!, ...ratesJson(price.rates) };
