import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AdminFindCallsRequestSchema } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { adminEventJson } from '../../../edge/routes/api/usage/event-json.ts';
import {
  type AdminCommand,
  type AdminContext,
  argument,
  existingOrganization,
  pageOf,
  pageOptions,
  textOption,
} from './command.ts';

export const callCommands: readonly AdminCommand[] = [
  {
    name: 'calls find',
    usage: '<request id> [--page n] [--limit n]',
    summary: 'Finds the call of any organization whose answer had this x-request-id, with its charge.',
    options: pageOptions,
    run: (context, args) =>
      charged(context, { requestId: argument(args, 0, "the call's request id"), page: pageOf(args) }),
  },
  {
    name: 'calls list',
    usage: '<organization> [--key id] [--page n] [--limit n]',
    summary: 'Lists the calls of an organization, or of one of its keys, such as one that leaked, with their charges.',
    options: { ...pageOptions, key: { type: 'string' } },
    async run(context, args) {
      const filter = { apiKeyId: textOption(args, 'key'), page: pageOf(args) };
      return charged(context, { tenantId: await existingOrganization(context, args), ...filter });
    },
  },
];

/** A page of calls, each with the transaction that charged it. */
async function charged(context: AdminContext, request: MessageInitShape<typeof AdminFindCallsRequestSchema>) {
  const { events, pageInfo: page } = await context.usage.adminFindCalls(request, context.asOperator);
  const charges = await chargesOf(context, events);
  const output = events.map((event) => ({ ...adminEventJson(event), transaction_id: charges.get(event.id) ?? null }));
  return { output, page, columns };
}

const columns = [
  ...['occurred_at', 'tenant_id', 'api_key_id', 'model', 'deployment_id', 'status', 'error_code', 'latency_ms'],
  ...['cost_usd', 'transaction_id'],
];

/** The ids of the transactions that charged a page of calls, by the calls' ids. */
async function chargesOf(
  { billing, asOperator }: AdminContext,
  events: readonly { id: string; tenantId: string }[],
): Promise<Map<string, string>> {
  const charges = new Map<string, string>();
  for (const [tenantId, ofOne] of Map.groupBy(events, (event) => event.tenantId)) {
    const request = { tenantId, usageEventIds: ofOne.map(({ id }) => id), page: { limit: ofOne.length } };
    const { transactions } = await billing.listTransactions(request, asOperator);
    for (const { id, usageEventId } of transactions) charges.set(usageEventId, id);
  }
  return charges;
}
