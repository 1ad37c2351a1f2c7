import { timestampMs } from '@bufbuild/protobuf/wkt';
import { DeploymentStatus, type Model, type PriceRates, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { allowsModel } from '#shared/caller-constraints.ts';
import { modelNotAllowed } from '#shared/errors.ts';
import { usdJson } from '#shared/money.ts';
import { operationName } from '#shared/operation-name.ts';
import { asCaller } from '../../caller.ts';
import { isoTime } from '../../http/json.ts';
import { announcingErrors } from '../../inference/errors.ts';
import { retirementHeaders } from '../../openai/retirement-headers.ts';
import { nameInPath, type Routes } from '../routes.ts';

/** The model listing (openai-contract.md section 4); /api/v1 adds what the portal shows (decisions.md, Models). */
export const modelRoutes: Routes = (app, deps) => {
  const { models, metrics, publicUrl } = deps;
  for (const prefix of ['/v1', '/api/v1'] as const) {
    const modelJson = prefix === '/v1' ? openaiModelJson : platformModelJson;

    app.get(`${prefix}/models`, { config: { access: { surface: 'api', scope: 'models:list' } } }, async (request) => {
      const answer = await models.listModels({}, asCaller(request));
      // A client that offers what is listed offers what it may call.
      const usable = answer.models.filter(({ name }) => allowsModel(request.principal!.constraints, name));
      return { object: 'list', data: usable.map(modelJson) };
    });

    app.get(
      `${prefix}/models/deprecations`,
      { config: { access: { surface: 'api', scope: 'models:list' } } },
      async (request) => {
        const answer = await models.listDeprecations({}, asCaller(request));
        return { object: 'list', data: answer.models.map(modelJson) };
      },
    );

    app.get(
      `${prefix}/models/*`,
      {
        config: { access: { surface: 'api', scope: 'models:retrieve' } },
        errorHandler: announcingErrors(deps, (request) => ({ model: nameInPath(request) })),
      },
      async (request, reply) => {
        const name = nameInPath(request);
        // A slash too many, and no name of a model.
        if (name === '') return reply.callNotFound();
        const { model } = await models.getModel({ name }, asCaller(request));
        if (!allowsModel(request.principal!.constraints, name)) throw modelNotAllowed(name);
        if (model!.retirement !== undefined) metrics.retiringModel(name);
        return reply.headers(retirementHeaders(name, model!.retirement, publicUrl)).send(modelJson(model!));
      },
    );
  }
};

function openaiModelJson(model: Model) {
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

export const platformModelJson = (model: Model) => ({
  ...openaiModelJson(model),
  display_name: model.displayName,
  operations: model.operations.map(operationName),
  context_window: model.contextWindow || null,
  max_output_tokens: model.maxOutputTokens || null,
  visibility: model.visibility === Visibility.PRIVATE ? 'private' : 'public',
  prices: model.price?.rates === undefined ? null : ratesJson(model.price.rates),
  deployments: model.deployments.map(({ id, status }) => ({ id, status: deploymentStatusName(status) })),
});

/** A deployment status as the API names it: Pending, Running, Degraded, Stopped or Failed. */
export function deploymentStatusName(status: DeploymentStatus): string {
  const [name] = Object.entries(DeploymentStatus).find(([, value]) => value === status) ?? ['UNSPECIFIED'];
  return name.slice(0, 1) + name.slice(1).toLowerCase();
}

export const ratesJson = (rates: PriceRates) => ({
  input_per_million_tokens_usd: usdJson(rates.inputPerMillionNanoUsd),
  cached_input_per_million_tokens_usd: usdJson(rates.cachedInputPerMillionNanoUsd ?? rates.inputPerMillionNanoUsd),
  output_per_million_tokens_usd: usdJson(rates.outputPerMillionNanoUsd),
  per_image_usd: usdJson(rates.perImageNanoUsd),
  per_audio_second_usd: usdJson(rates.perAudioSecondNanoUsd),
  per_million_characters_usd: usdJson(rates.perMillionCharactersNanoUsd),
  per_request_usd: usdJson(rates.perRequestNanoUsd),
});
