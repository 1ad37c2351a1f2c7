import { pageInfo, pageRows } from '#shared/page.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { pageOfAuditEvents } from '../db/audit.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The audit events of the caller's organization. */
export const listAuditEvents =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'listAuditEvents'> =>
  async (request, context) => {
    const { tenantId } = sessionCaller(context, Role.ADMIN);
    const rows = pageRows(request.page);
    const { events, total } = await pageOfAuditEvents(database, { ...request, tenantId }, rows);
    return { events, page: pageInfo(rows, total) };
  };
