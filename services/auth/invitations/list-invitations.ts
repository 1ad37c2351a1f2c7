import type { ListInvitationsRequest } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { pageOfInvitations } from '../db/invitation.repository.ts';
import type { AuthDeps } from '../deps.ts';

/** One page of an organization's invitations, or, for null, of those that make a new one; each with its current status. */
export async function invitationsOf(
  tenantId: string | null,
  request: Pick<ListInvitationsRequest, 'page' | 'status'>,
  { database, clock }: Pick<AuthDeps, 'database' | 'clock'>,
) {
  const rows = pageRows(request.page);
  const nowMs = clock.now();
  const filter = { tenantId, status: request.status, now: new Date(nowMs) };
  const [invitations, total] = await pageOfInvitations(database.em(), filter, rows);
  return { invitations: invitations.map((row) => invitationMessage(row, nowMs)), page: pageInfo(rows, total) };
}
