import { type FilterQuery, LockMode, type SqlEntityManager } from '@mikro-orm/postgresql';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import type { PageRows } from '#shared/page.ts';
import { InvitationEntity, type InvitationRow } from './invitation.entity.ts';
import { dropQueued } from './mail.repository.ts';

export const findInvitationByToken = (em: SqlEntityManager, tokenHash: Buffer): Promise<InvitationRow | null> =>
  em.findOne(InvitationEntity, { tokenHash });

/**
 * Spends an invitation, and drops its mail, whose link may have been passed on by hand; false when it was accepted, withdrawn or has expired.
 * Of any number of callers exactly one succeeds.
 */
export async function acceptPending(em: SqlEntityManager, id: string, now: Date): Promise<boolean> {
  if ((await em.nativeUpdate(InvitationEntity, { id, ...pendingAt(now) }, { acceptedAt: now })) !== 1) return false;
  await dropQueued(em, { dedupeKey: invitationMailKey(id) }, now);
  return true;
}

/** Withdraws those of some invitations that are pending, and drops their mails; returns them. */
export async function withdrawPending(
  em: SqlEntityManager,
  which: FilterQuery<InvitationRow>,
  now: Date,
): Promise<Pick<InvitationRow, 'id' | 'tenantId' | 'email'>[]> {
  // Locked, so that one accepted meanwhile is not among them.
  const pending = await em.find(
    InvitationEntity,
    { $and: [which, pendingAt(now)] },
    { fields: ['id', 'tenantId', 'email'], orderBy: { id: 'asc' }, lockMode: LockMode.PESSIMISTIC_WRITE },
  );
  if (pending.length === 0) return [];
  const ids = pending.map(({ id }) => id);
  await em.nativeUpdate(InvitationEntity, { id: { $in: ids } }, { withdrawnAt: now });
  await dropQueued(em, { dedupeKey: { $in: ids.map(invitationMailKey) } }, now);
  return pending;
}

/** The dedupe key of an invitation's mail. */
export const invitationMailKey = (invitationId: string): string => `invitation ${invitationId}`;

type Sent = Pick<InvitationRow, 'email' | 'createdAt'>;
const sent = { fields: ['email', 'createdAt'], orderBy: { id: 'desc' }, disableIdentityMap: true } as const;

/** The invitations that an organization sent last, newest first, whatever became of them. */
export const latestInvitations = (
  em: SqlEntityManager,
  tenantId: string,
  { until, limit }: { until: Date; limit: number },
): Promise<Sent[]> => em.find(InvitationEntity, { tenantId, createdAt: { $lte: until } }, { ...sent, limit });

/** The latest invitation, by any organization, to an address that was neither accepted nor withdrawn, if there is one. */
export const latestPendingTo = (em: SqlEntityManager, email: string, until: Date): Promise<Sent[]> =>
  em.find(
    InvitationEntity,
    { email, acceptedAt: null, withdrawnAt: null, createdAt: { $lte: until } },
    { ...sent, limit: 1 },
  );

/** How many pending invitations an organization has besides that to one person, which a new one would replace. */
export const countPendingForOthers = (
  em: SqlEntityManager,
  { tenantId, email }: { tenantId: string; email: string },
  now: Date,
): Promise<number> => em.count(InvitationEntity, { tenantId, email: { $ne: email }, ...pendingAt(now) });

/** One page of an organization's invitations, or, for null, of those that make a new one; newest first. */
export const pageOfInvitations = (
  em: SqlEntityManager,
  filter: { tenantId: string | null; status: InvitationStatus; now: Date },
  { limit, offset }: PageRows,
): Promise<[InvitationRow[], number]> =>
  em.findAndCount(
    InvitationEntity,
    { $and: [{ tenantId: filter.tenantId }, inStatus(filter.status, filter.now)] },
    { orderBy: { id: 'desc' }, limit, offset },
  );

const pendingAt = (now: Date) => ({ acceptedAt: null, withdrawnAt: null, expiresAt: { $gt: now } });

function inStatus(status: InvitationStatus, now: Date): FilterQuery<InvitationRow> {
  switch (status) {
    case InvitationStatus.PENDING:
      return pendingAt(now);
    case InvitationStatus.ACCEPTED:
      return { acceptedAt: { $ne: null } };
    case InvitationStatus.EXPIRED:
      return { acceptedAt: null, withdrawnAt: null, expiresAt: { $lte: now } };
    case InvitationStatus.WITHDRAWN:
      return { withdrawnAt: { $ne: null } };
    default:
      return {};
  }
}
