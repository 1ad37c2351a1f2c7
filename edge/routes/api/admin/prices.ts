import { type Static, Type } from 'typebox';
import type { Price } from '#gen/modelgateway/models/v1/model_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { ratesJson, ratesUsdMax } from '#shared/rates-json.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import {
  idSchema,
  isoTime,
  isoTimeSchema,
  noBody,
  pageOf,
  pageOfItems,
  pageQuerySchema,
  parseTimeIfGiven,
  timeSchema,
} from '../../../http/json.ts';
import { readAmount } from '../../../http/money-fields.ts';
import { nullable } from '../../../http/nullable.ts';
import { ratesSchema } from '../../v1/models.ts';
import { idInPath } from '../id-in-path.ts';
import { catalogModels, modelNameSchema } from './catalog-fields.ts';

const rateSchema = (name: keyof typeof ratesUsdMax, description?: string) =>
  Type.Number({ minimum: 0, maximum: ratesUsdMax[name], description });
const rates = {
  input_per_million_tokens_usd: Type.Optional(rateSchema('input_per_million_tokens_usd')),
  cached_input_per_million_tokens_usd: nullable(
    rateSchema(
      'cached_input_per_million_tokens_usd',
      'If absent or null, the same as for tokens that were not cached.',
    ),
  ),
  output_per_million_tokens_usd: Type.Optional(rateSchema('output_per_million_tokens_usd')),
  per_image_usd: Type.Optional(rateSchema('per_image_usd')),
  per_audio_second_usd: Type.Optional(rateSchema('per_audio_second_usd')),
  per_million_characters_usd: Type.Optional(rateSchema('per_million_characters_usd')),
  per_request_usd: Type.Optional(rateSchema('per_request_usd')),
};

/** /api/v1/admin/prices: price versions, which never change. */
export const adminPriceRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/prices',
    {
      config: operatorOnly,
      schema: {
        summary: 'List prices',
        description: 'Past prices, those in force, and those that follow: by model, the earliest first.',
        response: { 200: pageOf(priceSchema) },
        querystring: Type.Object({ ...pageQuerySchema, model: Type.Optional(modelNameSchema) }),
      },
    },
    async (request) => {
      const entries = await catalogModels(models, request.query.model ?? '', asCaller(request));
      return pageOfItems(
        entries.flatMap(({ prices }) => prices),
        adminPriceJson,
        request.query,
      );
    },
  );

  app.post(
    '/api/v1/admin/prices',
    {
      config: operatorOnly,
      schema: {
        summary: 'Set the price of a model',
        description:
          'Adds a version, which never changes and applies from `effective_from`: now by default, never in the past. At least one rate is needed; the others are 0, free of charge.',
        idempotent: true,
        response: { 201: priceSchema },
        body: onlyFields({
          model: modelNameSchema,
          effective_from: nullable(timeSchema),
          ...rates,
        }),
      },
    },
    async (request, reply) => {
      const { model, effective_from: effectiveFrom, ...given } = request.body;
      const rate = (field: keyof typeof given): bigint => readAmount(given[field] ?? 0, field, 'from 0');
      if (Object.values(given).every((rate) => rate === null)) {
        throw invalidRequest(
          'input_per_million_tokens_usd',
          'A price needs at least one rate; 0 means free of charge.',
          'missing_required_field',
        );
      }
      const { price } = await models.setPrice(
        {
          model,
          effectiveFrom: parseTimeIfGiven(effectiveFrom, 'effective_from'),
          rates: {
            inputPerMillionNanoUsd: rate('input_per_million_tokens_usd'),
            cachedInputPerMillionNanoUsd:
              given.cached_input_per_million_tokens_usd == null
                ? undefined
                : rate('cached_input_per_million_tokens_usd'),
            outputPerMillionNanoUsd: rate('output_per_million_tokens_usd'),
            perImageNanoUsd: rate('per_image_usd'),
            perAudioSecondNanoUsd: rate('per_audio_second_usd'),
            perMillionCharactersNanoUsd: rate('per_million_characters_usd'),
            perRequestNanoUsd: rate('per_request_usd'),
          },
          idempotencyKey: idempotencyKey(request),
        },
        asCaller(request),
      );
      return reply.code(201).send(adminPriceJson(price!));
    },
  );

  app.delete(
    '/api/v1/admin/prices/:price_id',
    {
      config: operatorOnly,
      schema: {
        summary: 'Withdraw a price',
        description:
          'Takes back a version that does not apply yet: the price before it goes on, and another can be set for its time. One that applies is a conflict (409): set the next one instead. Withdrawing again changes nothing.',
        response: { 204: noBody('The version is in no list any more.') },
        params: Type.Object({ price_id: idSchema }),
      },
    },
    async (request, reply) => {
      await models.withdrawPrice({ priceVersionId: idInPath(request.params.price_id, 'price') }, asCaller(request));
      return reply.code(204).send();
    },
  );
};

export const priceSchema = Type.Object(
  {
    id: idSchema,
    model: Type.String(),
    effective_from: isoTimeSchema,
    created_at: isoTimeSchema,
    ...ratesSchema.properties,
  },
  { $id: 'Price' },
);
export const adminPriceJson = (price: Price): Static<typeof priceSchema> => ({
  id: price.id,
  model: price.model,
  effective_from: isoTime(price.effectiveFrom!),
  created_at: isoTime(price.createdAt!),
  ...ratesJson(price.rates!),
});
