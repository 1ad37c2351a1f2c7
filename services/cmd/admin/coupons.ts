import { couponJson } from '../../../edge/routes/api/billing/billing-json.ts';
import {
  type AdminCommand,
  argument,
  idempotencyKeyOf,
  idempotencyOptions,
  pageOf,
  pageOptions,
  textOption,
  timeOption,
  usdNamed,
  wholeNumber,
} from './command.ts';

export const couponCommands: readonly AdminCommand[] = [
  {
    name: 'coupons list',
    usage: '[--page n] [--limit n]',
    summary: 'Lists coupons, newest first, with abridged codes.',
    options: pageOptions,
    async run({ billing, asOperator }, args) {
      const answer = await billing.listCoupons({ page: pageOf(args) }, asOperator);
      const columns = ['id', 'code', 'amount_usd', 'redemptions', 'redemptions_max', 'redeem_until', 'disabled_at'];
      return { output: answer.coupons.map(couponJson), page: answer.pageInfo, columns };
    },
  },
  {
    name: 'coupons create',
    usage:
      '<usd> [--code text] [--redemptions n] [--redeem-until time] [--credit-lifetime-days n] [--idempotency-key text]',
    summary:
      'Creates a coupon and shows its code, this once: by default a random one for one organization, never expiring.',
    options: {
      ...idempotencyOptions,
      code: { type: 'string' },
      redemptions: { type: 'string' },
      'redeem-until': { type: 'string' },
      'credit-lifetime-days': { type: 'string' },
    },
    async run({ billing, asOperator }, args) {
      const request = {
        amountNanoUsd: usdNamed(argument(args, 0, 'the amount'), 'above 0'),
        code: textOption(args, 'code'),
        redemptionsMax: wholeNumber(args, 'redemptions', 1_000_000) ?? 1,
        redeemUntil: timeOption(args, 'redeem-until'),
        creditLifetimeDays: wholeNumber(args, 'credit-lifetime-days', 3650) ?? 0,
        idempotencyKey: idempotencyKeyOf(args),
      };
      const { coupon } = await billing.createCoupon(request, asOperator);
      return { output: couponJson(coupon!) };
    },
  },
  {
    name: 'coupons disable',
    usage: '<id>',
    summary:
      'Stops further redemptions of a coupon; credit already given stays. `audit list --type coupon_redeemed` says who has had it.',
    async run({ billing, asOperator }, args) {
      const { coupon } = await billing.disableCoupon({ couponId: argument(args, 0, "the coupon's id") }, asOperator);
      return { output: couponJson(coupon!) };
    },
  },
];
