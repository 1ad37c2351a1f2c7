import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Invitation, InvitationSchema } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import { invitationStatus } from '../domain/invitation-status.ts';
import { type InvitationRow, nobody } from './invitation.entity.ts';

/** An invitation at a moment; its token is only in the mail. */
export const invitationMessage = (row: InvitationRow, nowMs: number): Invitation =>
  create(InvitationSchema, {
    id: row.id,
    tenantId: row.tenantId ?? '',
    email: row.email,
    role: row.role,
    status: invitationStatus(row, nowMs),
    createdAt: timestampFromDate(row.createdAt),
    expiresAt: timestampFromDate(row.expiresAt),
    invitedByUserId: row.invitedByUserId === nobody ? '' : row.invitedByUserId,
    acceptedAt: timestampOrUnset(row.acceptedAt),
  } satisfies WholeMessage<typeof InvitationSchema>);
