import { create } from '@bufbuild/protobuf';
import { WithdrawPriceResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { ratesJson } from '#shared/rates-json.ts';
import { changeCatalog } from '../catalog/change-catalog.ts';
import { priceTimes } from '../catalog/read-messages.ts';
import { priceMessage } from '../catalog/snapshot.ts';
import { ModelEntity, PriceEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { hasBegun } from '../domain/price.ts';

/** Withdrawing a second time changes nothing. */
export const withdrawPrice =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'withdrawPrice'> =>
  ({ priceVersionId }, context) =>
    changeCatalog(deps, context, async (em, now) => {
      const row = await em.findOne(PriceEntity, { id: priceVersionId });
      if (row === null) throw notFound('price');
      const answer = create(WithdrawPriceResponseSchema);
      if (row.withdrawnAt !== null) return { answer, audit: null };
      const { name } = await em.findOneOrFail(ModelEntity, { id: row.modelId });
      const price = priceMessage(name, row);
      if (hasBegun(priceTimes(price), now.getTime())) {
        throw gatewayError(
          ErrorReason.CONFLICT,
          `This price of \`${name}\` already applies, and what was charged stays as it is. Set another one instead.`,
        );
      }
      row.withdrawnAt = now;
      return {
        answer,
        audit: {
          type: 'price_withdrawn',
          target: { type: 'model', id: name },
          before: {
            id: row.id,
            effective_from: row.effectiveFrom.toISOString(),
            ...ratesJson(price.rates!),
          },
        },
      };
    });
