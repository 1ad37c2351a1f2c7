import { catalogModels } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { adminPriceJson } from '../../../edge/routes/api/admin/prices.ts';
import { rateFields } from './catalog-file.ts';
import {
  type AdminCommand,
  argument,
  idempotencyKeyOf,
  idempotencyOptions,
  textOption,
  timeOption,
  UsageError,
  usdNamed,
} from './command.ts';

/** The option of each rate, named as in a catalog file, and the rate's field in PriceRates. */
const rates = [...rateFields].map(([name, field]) => [name.replaceAll('_', '-'), field] as const);

export const priceCommands: readonly AdminCommand[] = [
  {
    name: 'prices list',
    usage: '[--model name]',
    summary: 'Lists prices: past ones, those in force, and those that follow.',
    options: { model: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const entries = await catalogModels(models, textOption(args, 'model'), asOperator);
      const columns = ['model', 'effective_from', ...rateFields.keys()];
      return { output: entries.flatMap(({ prices }) => prices).map(adminPriceJson), columns };
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
          given.map(([option, field]) => [field, usdNamed(textOption(args, option), 'from 0')]),
        ),
        idempotencyKey: idempotencyKeyOf(args),
      };
      const { price } = await models.setPrice(request, asOperator);
      return { output: adminPriceJson(price!) };
    },
  },
];
