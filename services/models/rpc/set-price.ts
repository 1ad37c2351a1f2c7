import { create, type JsonObject, toJson } from '@bufbuild/protobuf';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { SetPriceRequestSchema, SetPriceResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { ratesJson } from '#shared/rates-json.ts';
import { changeCatalog, oncePerKey } from '../catalog/change-catalog.ts';
import { priceMessage } from '../catalog/snapshot.ts';
import { PriceEntity } from '../db/catalog.entities.ts';
import { requireModel } from '../db/model.repository.ts';
import { beginningAfter, pricesInForce } from '../db/price.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const setPrice =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'setPrice'> =>
  (request, context) =>
    changeCatalog(
      deps,
      context,
      async (em, now) => {
        const { model: name, effectiveFrom, rates } = request;
        const model = await requireModel(em, name);
        const atOnce = beginningAfter((await pricesInForce(em, [model.id], now)).get(model.id), now);
        const from = effectiveFrom === undefined ? atOnce : timestampDate(effectiveFrom);
        if (from < atOnce) {
          throw invalidRequest(
            'effective_from',
            '`effective_from` must not be in the past: what was charged stays as it is.',
            'invalid_value',
          );
        }
        if ((await em.count(PriceEntity, { modelId: model.id, effectiveFrom: from, withdrawnAt: null })) > 0) {
          throw gatewayError(ErrorReason.CONFLICT, `\`${name}\` already has a price from this time on.`, {
            param: 'effective_from',
          });
        }
        const row = em.create(PriceEntity, {
          id: uuidv7(),
          modelId: model.id,
          effectiveFrom: from,
          createdAt: atOnce,
          rates: toJson(PriceRatesSchema, rates!) as JsonObject,
          withdrawnAt: null,
        });
        em.persist(row);
        return {
          answer: create(SetPriceResponseSchema, { price: priceMessage(name, row) }),
          audit: {
            type: 'price_set',
            target: { type: 'model', id: name },
            after: { id: row.id, effective_from: from.toISOString(), ...ratesJson(rates!) },
          },
        };
      },
      oncePerKey(SetPriceRequestSchema, SetPriceResponseSchema, request),
    );
