import { fromJson, type JsonObject } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type PriceRates, PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';

/** A price version that has begun to apply. */
export type BegunPrice = { effectiveFrom: Date; rates: PriceRates };

/** The price in force of each of some models that has one, by the model's id, as `priceNow` tells it. */
export async function pricesInForce(
  em: SqlEntityManager,
  modelIds: readonly string[],
  now: Date,
): Promise<Map<string, BegunPrice>> {
  const rows = await em.execute<{ modelId: string; effectiveFrom: Date; rates: JsonObject }[]>(
    `select distinct on (model_id) model_id as "modelId", effective_from as "effectiveFrom", rates from prices
     where withdrawn_at is null and model_id in (select json_array_elements_text(?::json)::uuid)
       and (effective_from <= ? or effective_from <= created_at)
     order by model_id, effective_from desc`,
    [JSON.stringify(modelIds), now],
  );
  return new Map(
    rows.map(({ modelId, effectiveFrom, rates }) => [
      modelId,
      { effectiveFrom: new Date(effectiveFrom), rates: fromJson(PriceRatesSchema, rates) },
    ]),
  );
}

/** When a price that is set now begins to apply: after the one in force, which may have been set by a clock that is ahead of this one. */
export const beginningAfter = (inForce: BegunPrice | undefined, now: Date): Date =>
  inForce !== undefined && inForce.effectiveFrom >= now ? new Date(inForce.effectiveFrom.getTime() + 1) : now;
