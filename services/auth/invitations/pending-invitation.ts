import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import type { InvitationRow } from '../db/invitation.entity.ts';
import { findInvitationByToken } from '../db/invitation.repository.ts';
import { invitationStatus } from '../domain/invitation-status.ts';
import { tokenHash } from '../tokens/session-tokens.ts';

/** The invitation that can be accepted with a token. Fails with INVALID_CODE. */
export async function pendingInvitation(em: SqlEntityManager, token: string, nowMs: number): Promise<InvitationRow> {
  const invitation = await findInvitationByToken(em, tokenHash(token));
  if (invitation === null || invitationStatus(invitation, nowMs) !== InvitationStatus.PENDING) throw notPending();
  return invitation;
}

export const notPending = (): GatewayError =>
  gatewayError(
    ErrorReason.INVALID_CODE,
    'This invitation is unknown, already used, withdrawn or expired. Ask for a new one.',
    { param: 'token' },
  );
