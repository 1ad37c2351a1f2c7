import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AdminFindCallsRequestSchema } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { isUuid } from '#shared/ids.ts';
import { adminEventJson } from '../../../edge/routes/api/usage/event-json.ts';
import {
  type AdminCommand,
  type AdminContext,
  argument,
  choice,
  dayOption,
  existingOrganization,
  pageOf,
  pageOptions,
  textOption,
} from './command.ts';

export const callCommands: readonly AdminCommand[] = [
  {
    name: 'calls find',
    usage: '<request id | call id> [--page n] [--limit n]',
    summary:
      'Finds the call of any organization whose answer had this x-request-id, or that a charge names, with its charge.',
    options: pageOptions,
    run(context, args) {
      const id = argument(args, 0, "the call's request id");
      return charged(context, { ...(isUuid(id) ? { eventId: id } : { requestId: id }), page: pageOf(args) });
    },
  },
  {
    name: 'calls list',
    usage:
      '[organization] [--user id] [--key id] [--model name] [--success true|false] [--deployment id] ' +
      '[--start-date day] [--end-date day] [--page n] [--limit n]',
    summary:
      'Lists calls with their charges, such as those of a key that leaked, or that failed. Without an organization, or ' +
      'through a deployment, of at most seven days in UTC: by default the last ones.',
    options: {
      ...pageOptions,
      user: { type: 'string' },
      key: { type: 'string' },
      model: { type: 'string' },
      success: { type: 'string' },
      deployment: { type: 'string' },
      'start-date': { type: 'string' },
      'end-date': { type: 'string' },
    },
    async run(context, args) {
      const success = choice(args, 'success', ['true', 'false']);
      return charged(context, {
        tenantId: args.positionals.length === 0 ? '' : await existingOrganization(context, args),
        userId: textOption(args, 'user'),
        apiKeyId: textOption(args, 'key'),
        model: textOption(args, 'model'),
        success: success === undefined ? undefined : success === 'true',
        deploymentId: textOption(args, 'deployment'),
        range: { startDate: dayOption(args, 'start-date'), endDate: dayOption(args, 'end-date') },
        page: pageOf(args),
      });
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
