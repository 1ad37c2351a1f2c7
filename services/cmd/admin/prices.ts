import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { Price } from '#gen/modelgateway/models/v1/model_pb.ts';
import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import { parseUsd } from '#shared/money.ts';
import { ratesUsdMax } from '#shared/rates-json.ts';
import { catalogModels, findCatalogModel } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { adminPriceJson } from '../../../edge/routes/api/admin/prices.ts';
import { measuresJson } from '../../../edge/routes/api/usage/measures-json.ts';
import { rateFields } from './catalog-file.ts';
import {
  type AdminArguments,
  type AdminCommand,
  argument,
  idempotencyKeyOf,
  idempotencyOptions,
  textOption,
  timeOption,
  UsageError,
  usdNamed,
} from './command.ts';

/** The option of each rate, named as in a catalog file, the rate's field in PriceRates, and how high it may be. */
const rates = [...rateFields].map(
  ([name, field]) => [name.replaceAll('_', '-'), field, parseUsd(String(ratesUsdMax[name]))!] as const,
);

/**
 * How long before and after a price's time its calls are searched for, in milliseconds: a job is dated by its first start, takes the first price
 * that its model has since, and lasts 24 hours; a replica that is cut off from the catalog goes on with the price that it knows; clocks may differ.
 */
const marginMs = 24 * 3_600_000 + 300_000;

/** In milliseconds; all calls of that time are read. */
const chargesTimeoutMs = 3_600_000;

export const priceCommands: readonly AdminCommand[] = [
  {
    name: 'prices list',
    usage: '[--model name]',
    summary: 'Lists prices: past ones, those in force, and those that follow.',
    options: { model: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const entries = await catalogModels(models, textOption(args, 'model'), asOperator);
      const columns = ['id', 'model', 'effective_from', ...rateFields.keys()];
      return { output: entries.flatMap(({ prices }) => prices).map(adminPriceJson), columns };
    },
  },
  {
    name: 'prices charges',
    usage: '<price>',
    summary:
      'Says which organizations were charged by a price, for what and how much, dearest first: after a wrong one, whom to give credit.',
    async run({ models, usage, asOperator }, args) {
      const priceId = priceIdIn(args);
      // The model may have been deleted since; its prices stay.
      const [price] = (await models.getPrices({ priceVersionIds: [priceId] }, asOperator)).prices;
      if (price === undefined) throw notFound('price');
      const entry = await findCatalogModel(models, price.model, asOperator);
      const next = nextOf(price, entry?.prices ?? []);
      const since = timestampFromMs(effectiveMs(price) - marginMs);
      const until = next && timestampFromMs(effectiveMs(next) + marginMs);
      const request = { model: price.model, priceId, since, until };
      const { organizations } = await usage.adminGetPriceCharges(request, {
        ...asOperator,
        timeoutMs: chargesTimeoutMs,
      });
      const output = organizations.map(({ tenantId, measures }) => ({
        organization: tenantId,
        ...measuresJson(measures!),
      }));
      return { output, columns: ['organization', 'requests', 'input_tokens', 'output_tokens', 'cost_usd'] };
    },
  },
  {
    name: 'prices set',
    usage: `<model> ${rates.map(([option]) => `[--${option} n]`).join(' ')} [--from time] [--idempotency-key text]`,
    summary:
      'Sets the price of a model, now or from a later time on. A rate that is left out is 0, free of charge; for cached input it is that of input.',
    options: {
      ...idempotencyOptions,
      from: { type: 'string' },
      ...Object.fromEntries(rates.map(([option]) => [option, { type: 'string' } as const])),
    },
    async run({ models, asOperator }, args) {
      const given = rates.filter(([option]) => textOption(args, option) !== '');
      if (given.length === 0) throw new UsageError('a price needs at least one rate; 0 means free of charge');
      const request = {
        model: argument(args, 0, 'the model'),
        effectiveFrom: timeOption(args, 'from'),
        rates: Object.fromEntries(
          given.map(([option, field, max]) => [field, usdNamed(textOption(args, option), 'from 0', max)]),
        ),
        idempotencyKey: idempotencyKeyOf(args),
      };
      const { price } = await models.setPrice(request, asOperator);
      return { output: adminPriceJson(price!) };
    },
  },
  {
    name: 'prices withdraw',
    usage: '<price>',
    summary: 'Takes back a price that does not apply yet: the one before it goes on.',
    async run({ models, asOperator }, args) {
      const priceVersionId = priceIdIn(args);
      await models.withdrawPrice({ priceVersionId }, asOperator);
      return { output: { id: priceVersionId, withdrawn: true } };
    },
  },
];

function priceIdIn(args: AdminArguments): string {
  const id = argument(args, 0, "the price's id").toLowerCase();
  if (!isUuid(id)) throw notFound('price');
  return id;
}

/** The price of the model that follows one; undefined if none does. */
const nextOf = (price: Price, prices: readonly Price[]): Price | undefined =>
  prices.filter((one) => effectiveMs(one) > effectiveMs(price)).sort((a, b) => effectiveMs(a) - effectiveMs(b))[0];

const effectiveMs = ({ effectiveFrom }: Price): number => timestampMs(effectiveFrom!);
