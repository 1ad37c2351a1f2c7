import { create } from '@bufbuild/protobuf';
import { GetPricesResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { priceMessage } from '../catalog/snapshot.ts';
import { ModelEntity, PriceEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const getPrices =
  ({ database }: Pick<ModelsDeps, 'database'>): ModelsRpc<'getPrices'> =>
  async ({ priceVersionIds }, context) => {
    requireService(callerOf(context));
    const em = database.em();
    const prices = await em.find(PriceEntity, { id: { $in: priceVersionIds } });
    const models = await em.find(ModelEntity, { id: { $in: prices.map(({ modelId }) => modelId) } });
    const names = new Map(models.map(({ id, name }) => [id, name]));
    return create(GetPricesResponseSchema, {
      prices: prices.map((price) => priceMessage(names.get(price.modelId) ?? '', price)),
    });
  };
