import { adminPlanJson } from '../../../edge/routes/api/admin/plans.ts';
import { type AdminCommand, argument, textOption, usdNamed, wholeNumber } from './command.ts';
import { limitOptions, namedLimits } from './rate-limits.ts';

export const planCommands: readonly AdminCommand[] = [
  {
    name: 'plans list',
    usage: '',
    summary: 'Lists the plans.',
    async run({ billing, asOperator }) {
      const { plans } = await billing.listPlans({}, asOperator);
      const columns = [
        'code',
        'name',
        'payg_enabled',
        'included.monthly_credit_usd',
        'payment_terms_days',
        'rate_limits.requests_per_minute',
        'rate_limits.tokens_per_minute',
        'rate_limits.concurrent_requests',
      ];
      return { output: plans.map(adminPlanJson), columns };
    },
  },
  {
    name: 'plans put',
    usage:
      '<code> <name> [--payg] [--monthly-credit usd] [--payment-terms-days n] [--feature text]... [--requests n] [--tokens n] [--concurrent n]',
    summary:
      'Creates or replaces a plan. What is left out gets its default: no PAYG, no credit, 30 days, no features, the limits of the platform.',
    options: {
      ...limitOptions,
      payg: { type: 'boolean' },
      'monthly-credit': { type: 'string' },
      'payment-terms-days': { type: 'string' },
      feature: { type: 'string', multiple: true },
    },
    async run({ billing, asOperator }, args) {
      const { payg, feature } = args.values;
      const plan = {
        code: argument(args, 0, "the plan's code"),
        name: argument(args, 1, 'the name'),
        paygEnabled: payg === true,
        rateLimits: namedLimits(args),
        included: {
          monthlyCreditNanoUsd: usdNamed(textOption(args, 'monthly-credit') || '0', 'from 0'),
          features: Array.isArray(feature) ? feature.map(String) : [],
        },
        paymentTermsDays: wholeNumber(args, 'payment-terms-days', 365, 0) ?? 30,
      };
      return { output: adminPlanJson((await billing.putPlan({ plan }, asOperator)).plan!) };
    },
  },
];
