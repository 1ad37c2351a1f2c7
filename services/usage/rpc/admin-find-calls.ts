import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { eventMessage } from '../db/event-rows.ts';
import { pageOfRequest } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';

/** Clients quote a request id, but do not say whose it is: the one look-up that crosses organizations. */
export const adminFindCalls =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'adminFindCalls'> =>
  async (request, context) => {
    operatorCaller(context);
    const page = pageRows(request.page);
    const { rows, total } = await pageOfRequest(database, request.requestId, page);
    return { events: rows.map(eventMessage), pageInfo: pageInfo(page, total) };
  };
