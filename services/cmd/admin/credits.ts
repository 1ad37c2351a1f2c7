import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { lotJson, transactionJson, transactionTypes } from '../../../edge/routes/api/billing/billing-json.ts';
import {
  type AdminCommand,
  argument,
  choice,
  dayOption,
  existingOrganization,
  idempotencyOptions,
  pageOf,
  pageOptions,
  requestIdOf,
  required,
  textOption,
  timeOption,
  UsageError,
  usdNamed,
} from './command.ts';

const sources = { promotion: LotSource.PROMOTION, purchase: LotSource.PURCHASE };

export const creditCommands: readonly AdminCommand[] = [
  {
    name: 'credits grant',
    usage:
      '<organization> <usd> [--source promotion|purchase] [--payment id] [--expires time] [--description text] [--idempotency-key text]',
    summary:
      'Gives an organization credit: a promotion, unless it has paid for it, as by a payment that its provider names so.',
    options: {
      ...idempotencyOptions,
      source: { type: 'string' },
      payment: { type: 'string' },
      expires: { type: 'string' },
      description: { type: 'string' },
    },
    async run(context, args) {
      const request = {
        amountNanoUsd: usdNamed(argument(args, 1, 'the amount'), 'above 0'),
        source: sources[choice(args, 'source', ['promotion', 'purchase']) ?? 'promotion'],
        expiresAt: timeOption(args, 'expires'),
        description: textOption(args, 'description'),
        paymentId: textOption(args, 'payment'),
        requestId: requestIdOf(args),
      };
      const tenantId = await existingOrganization(context, args);
      const { lot } = await context.billing.grantCredit({ tenantId, ...request }, context.asOperator);
      return { output: lotJson(lot!) };
    },
  },
  {
    name: 'credits adjust',
    usage: '<organization> <add|deduct> <usd> --description text [--allow-negative-balance] [--idempotency-key text]',
    summary:
      'Sets the credit of an organization right, as after a refund by the payment provider. What it has spent already it may be made to owe.',
    options: {
      ...idempotencyOptions,
      description: { type: 'string' },
      'allow-negative-balance': { type: 'boolean' },
    },
    async run(context, args) {
      const direction = argument(args, 1, '`add` or `deduct`');
      if (direction !== 'add' && direction !== 'deduct') throw new UsageError('say whether to `add` or to `deduct`');
      const amount = usdNamed(argument(args, 2, 'the amount'), 'above 0');
      const request = {
        amountNanoUsd: direction === 'add' ? amount : -amount,
        description: required(args, 'description'),
        allowNegativeBalance: args.values['allow-negative-balance'] === true,
        requestId: requestIdOf(args),
      };
      const tenantId = await existingOrganization(context, args);
      const { transaction } = await context.billing.postAdjustment({ tenantId, ...request }, context.asOperator);
      return { output: transactionJson(transaction!) };
    },
  },
  {
    name: 'transactions list',
    usage: `<organization> [--type ${transactionTypes.names.join('|')}] [--start-date day] [--end-date day] [--page n] [--limit n]`,
    summary: "Lists an organization's charges, credit, payments and refunds, newest first.",
    options: {
      ...pageOptions,
      type: { type: 'string' },
      'start-date': { type: 'string' },
      'end-date': { type: 'string' },
    },
    async run(context, args) {
      const filter = {
        page: pageOf(args),
        type: transactionTypes.value(choice(args, 'type', transactionTypes.names)),
        startDate: dayOption(args, 'start-date'),
        endDate: dayOption(args, 'end-date'),
      };
      const tenantId = await existingOrganization(context, args);
      const answer = await context.billing.listTransactions({ tenantId, ...filter }, context.asOperator);
      const columns = ['id', 'occurred_at', 'type', 'amount_usd', 'balance_after_usd', 'description', 'reverses_id'];
      return { output: answer.transactions.map(transactionJson), page: answer.pageInfo, columns };
    },
  },
  {
    name: 'transactions refund',
    usage: '<organization> <transaction> --description text [--amount usd] [--idempotency-key text]',
    summary: 'Gives a charge back: by default, all that is left of it.',
    options: { ...idempotencyOptions, description: { type: 'string' }, amount: { type: 'string' } },
    async run({ billing, asOperator }, args) {
      const amount = textOption(args, 'amount');
      const request = {
        tenantId: argument(args, 0, "the organization's id"),
        transactionId: argument(args, 1, "the transaction's id"),
        // 0: all that is left of it.
        amountNanoUsd: amount === '' ? 0n : usdNamed(amount, 'above 0'),
        description: required(args, 'description'),
        requestId: requestIdOf(args),
      };
      const { transaction } = await billing.refundTransaction(request, asOperator);
      return { output: transactionJson(transaction!) };
    },
  },
];
