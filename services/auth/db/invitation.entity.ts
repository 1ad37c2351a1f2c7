import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import { NIL } from 'uuid';
import type { Role } from '#shared/rpc/caller.ts';

/** The inviter when no user invited: the operators' command line. */
export const nobody = NIL;

export const InvitationEntity = defineEntity({
  name: 'Invitation',
  tableName: 'invitations',
  properties: {
    id: p.uuid().primary(),
    /** Null: accepting makes a new organization. */
    tenantId: p.uuid().nullable(),
    email: p.text(),
    role: p.smallint().$type<Role>(),
    tokenHash: p.blob(),
    invitedByUserId: p.uuid(),
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    acceptedAt: p.datetime().nullable(),
    withdrawnAt: p.datetime().nullable(),
  },
});

export type InvitationRow = InferEntity<typeof InvitationEntity>;
