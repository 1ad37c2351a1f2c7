import { fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { type PriceRates, PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { asService } from '#shared/rpc/caller.ts';
import { slicesOf } from '#shared/slices.ts';

/** The rates of price versions. A version never changes, so it needs to be looked up only once. */
export type PriceBook = {
  /** The rates of those versions that exist. Fails when one is unknown here and Models cannot be asked. */
  ratesOf(versionIds: readonly string[]): Promise<ReadonlyMap<string, PriceRates>>;
};

/** The most versions in one request. */
const versionsPerCall = 100;

/** A price book that keeps versions in Billing's own schema and asks Models for new ones. */
export function createPriceBook(deps: {
  database: Pick<ServiceDatabase, 'query'>;
  models: Pick<Client<typeof ModelsService>, 'getPrices'>;
}): PriceBook {
  const { database, models } = deps;
  const known = new Map<string, PriceRates>();
  const self = asService('billing');
  const unknownAmong = (ids: readonly string[]): string[] => [...new Set(ids)].filter((id) => !known.has(id));

  async function readKept(ids: readonly string[]): Promise<void> {
    const { rows } = await database.query<{ id: string; rates: Buffer }>({
      text: 'select id, rates from price_versions where id = any($1::uuid[])',
      values: [ids],
    });
    for (const { id, rates } of rows) known.set(id, fromBinary(PriceRatesSchema, rates));
  }

  async function askModels(ids: string[]): Promise<void> {
    const { prices } = await models.getPrices({ priceVersionIds: ids }, self);
    for (const { id, rates } of prices) {
      await database.query({
        text: 'insert into price_versions (id, rates) values ($1, $2) on conflict do nothing',
        values: [id, Buffer.from(toBinary(PriceRatesSchema, rates!))],
      });
      known.set(id, rates!);
    }
  }

  return {
    async ratesOf(versionIds) {
      let unknown = unknownAmong(versionIds);
      if (unknown.length > 0) {
        await readKept(unknown);
        unknown = unknownAmong(versionIds);
      }
      for (const some of slicesOf(unknown, versionsPerCall)) await askModels(some);
      return known;
    },
  };
}
