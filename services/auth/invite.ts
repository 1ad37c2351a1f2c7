import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Role } from '#shared/rpc/caller.ts';
import { roleName } from '#shared/session-token.ts';
import { type AuditActor, recordAudit } from './audit.ts';
import { InvitationEntity, type InvitationRow, nobody } from './db/invitation.entity.ts';
import { invitationMailKey, pendingOf, withdrawEarlier, withdrawPending } from './db/invitation.repository.ts';
import type { UserRow } from './db/user.entity.ts';
import type { AuthDeps } from './deps.ts';
import { invitationLifetimeMs } from './domain/invitation-status.ts';
import { invitationMail } from './domain/mail-texts.ts';
import { mayInvite } from './domain/member-rules.ts';
import { linkWithToken, newOneTimeToken } from './tokens/one-time-token.ts';

type Deps = Pick<AuthDeps, 'clock' | 'outbox' | 'publicUrl'>;

/**
 * Makes an invitation and its mail, in the transaction of the call, which has begun its turn (invitation-limits.ts). An earlier one to
 * the same address is withdrawn.
 */
export async function invite(
  em: SqlEntityManager,
  invited: { organization: { id: string; name: string } | null; email: string; role: Role },
  by: { userId: string; actor: AuditActor },
  { clock, outbox, publicUrl }: Deps,
): Promise<InvitationRow> {
  const { organization, email, role } = invited;
  const now = new Date(clock.now());
  const tenantId = organization?.id ?? null;
  const withdrawn = await withdrawEarlier(em, { tenantId, email }, now);
  const { token, hash } = newOneTimeToken();
  const invitation = em.create(InvitationEntity, {
    id: uuidv7(),
    tenantId,
    email,
    role,
    tokenHash: hash,
    invitedByUserId: by.userId || nobody,
    createdAt: now,
    expiresAt: new Date(clock.now() + invitationLifetimeMs),
  });
  await em.flush();
  const link = linkWithToken(publicUrl, '/accept-invite', token);
  const mail = invitationMail({
    organization: organization?.name ?? null,
    role: roleName(role),
    // The portal asks only those for an organization's name who open one.
    link: organization === null ? `${link}&organization=new` : link,
    expiresAt: invitation.expiresAt,
  });
  await outbox.enqueue(em, [
    {
      ...mail,
      dedupeKey: invitationMailKey(invitation.id),
      kind: 'invitation',
      toEmail: email,
      secret: true,
      expiresAt: invitation.expiresAt,
    },
  ]);
  for (const id of withdrawn) await recordWithdrawal(em, { id, tenantId, email }, by.actor, clock);
  await recordAudit(em, clock, {
    tenantId,
    type: 'invitation_created',
    actor: by.actor,
    target: { type: 'invitation', id: invitation.id },
    after: { email, role: roleName(role) },
  });
  return invitation;
}

/**
 * Withdraws the pending invitations that a member has made and no longer might, in the transaction that changed the member: who
 * was removed or demoted would otherwise come back by an invitation of their own.
 */
export async function withdrawUnentitled(
  em: SqlEntityManager,
  inviter: UserRow,
  actor: AuditActor,
  { clock }: Pick<AuthDeps, 'clock'>,
): Promise<void> {
  const { id: invitedByUserId, tenantId } = inviter;
  const now = new Date(clock.now());
  for (const { id, email, role } of await pendingOf(em, { invitedByUserId, tenantId }, now)) {
    if (inviter.isActive && mayInvite(inviter.role, role)) continue;
    if (await withdrawPending(em, { id, tenantId }, now))
      await recordWithdrawal(em, { id, tenantId, email }, actor, clock);
  }
}

/** Notes in the audit trail that an invitation was withdrawn. */
export const recordWithdrawal = (
  em: SqlEntityManager,
  { id, tenantId, email }: { id: string; tenantId: string | null; email: string },
  actor: AuditActor,
  clock: Clock,
): Promise<void> =>
  recordAudit(em, clock, {
    tenantId,
    type: 'invitation_withdrawn',
    actor,
    target: { type: 'invitation', id },
    before: { email },
  });
