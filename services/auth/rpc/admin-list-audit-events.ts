import { create } from '@bufbuild/protobuf';
import { ListAuditEventsRequestSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { pageOfAuditEvents } from '../db/audit.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The audit events of all organizations and of the platform. */
export const adminListAuditEvents =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'adminListAuditEvents'> =>
  async (request, context) => {
    operatorCaller(context);
    const filter = request.filter ?? create(ListAuditEventsRequestSchema);
    const rows = pageRows(filter.page);
    const tenantId = request.tenantId || null;
    const { events, total } = await pageOfAuditEvents(database, { ...filter, tenantId }, rows);
    return { events, page: pageInfo(rows, total) };
  };
