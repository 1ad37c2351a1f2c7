import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';

/** How long an invitation can be accepted, in milliseconds. */
export const invitationLifetimeMs = 7 * 86_400_000;

type InvitationMoments = { acceptedAt?: Date | null; withdrawnAt?: Date | null; expiresAt: Date };

/** What an invitation's state is at a moment. */
export function invitationStatus(invitation: InvitationMoments, nowMs: number): InvitationStatus {
  if (invitation.acceptedAt != null) return InvitationStatus.ACCEPTED;
  if (invitation.withdrawnAt != null) return InvitationStatus.WITHDRAWN;
  return invitation.expiresAt.getTime() <= nowMs ? InvitationStatus.EXPIRED : InvitationStatus.PENDING;
}
