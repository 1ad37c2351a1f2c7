import { invalidRequest } from '#shared/errors.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { eventMessage } from '../db/event-rows.ts';
import { pageOfEvents, pageOfRequest } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';

/** Clients quote a request id, but do not say whose it is: the one look-up that crosses organizations. */
export const adminFindCalls =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'adminFindCalls'> =>
  async ({ requestId, tenantId, apiKeyId, page: asked }, context) => {
    operatorCaller(context);
    if ((requestId === '') === (tenantId === '')) {
      throw invalidRequest('request_id', 'Give `request_id` or `tenant_id`.', 'invalid_value');
    }
    if (apiKeyId !== '' && tenantId === '') {
      throw invalidRequest('tenant_id', '`api_key_id` needs the `tenant_id` of its organization.', 'invalid_value');
    }
    const page = pageRows(asked);
    const ofOrganization = { subject: { tenantId, userId: null }, filter: { apiKeyId }, startMs: null, endMs: null };
    const { rows, total } =
      requestId === ''
        ? await pageOfEvents(database, { ...ofOrganization, success: undefined, ...page })
        : await pageOfRequest(database, requestId, page);
    return { events: rows.map(eventMessage), pageInfo: pageInfo(page, total) };
  };
