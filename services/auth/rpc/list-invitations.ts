import { pageInfo, pageRows } from '#shared/page.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { pageOfInvitations } from '../db/invitation.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The invitations of the caller's organization. */
export const listInvitations =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'listInvitations'> =>
  async (request, context) => {
    const { tenantId } = sessionCaller(context, Role.ADMIN);
    const rows = pageRows(request.page);
    const nowMs = clock.now();
    const filter = { tenantId, status: request.status, now: new Date(nowMs) };
    const [invitations, total] = await pageOfInvitations(database.em(), filter, rows);
    return { invitations: invitations.map((row) => invitationMessage(row, nowMs)), page: pageInfo(rows, total) };
  };
