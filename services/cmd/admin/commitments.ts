import { commitmentJson } from '../../../edge/routes/api/billing/billing-json.ts';
import {
  type AdminCommand,
  argument,
  existingOrganization,
  idempotencyOptions,
  pageOf,
  pageOptions,
  requestIdOf,
  timeNamed,
  usdNamed,
} from './command.ts';

export const commitmentCommands: readonly AdminCommand[] = [
  {
    name: 'commitments list',
    usage: '<organization> [--page n] [--limit n]',
    summary: "Lists an organization's commitments, newest first.",
    options: pageOptions,
    async run(context, args) {
      const tenantId = await existingOrganization(context, args);
      const answer = await context.billing.listCommitments({ tenantId, page: pageOf(args) }, context.asOperator);
      return { output: answer.commitments.map(commitmentJson), page: answer.pageInfo };
    },
  },
  {
    name: 'commitments create',
    usage: '<organization> <usd> <start> <end> [--idempotency-key text]',
    summary: 'Records what an organization has agreed to spend from a start until before an end.',
    options: idempotencyOptions,
    async run(context, args) {
      const request = {
        amountNanoUsd: usdNamed(argument(args, 1, 'the amount'), 'above 0'),
        periodStart: timeNamed(argument(args, 2, 'the start')),
        periodEnd: timeNamed(argument(args, 3, 'the end')),
        requestId: requestIdOf(args),
      };
      const tenantId = await existingOrganization(context, args);
      const { commitment } = await context.billing.createCommitment({ tenantId, ...request }, context.asOperator);
      return { output: commitmentJson(commitment!) };
    },
  },
  {
    name: 'commitments end',
    usage: '<organization> <commitment>',
    summary: 'Ends a commitment at once, such as one with a wrong amount; what it paid for stays paid.',
    async run({ billing, asOperator }, args) {
      const request = {
        tenantId: argument(args, 0, "the organization's id"),
        commitmentId: argument(args, 1, "the commitment's id"),
      };
      const { commitment } = await billing.endCommitment(request, asOperator);
      return { output: commitmentJson(commitment!) };
    },
  },
];
