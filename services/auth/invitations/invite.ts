import type { FilterQuery, SqlEntityManager } from '@mikro-orm/postgresql';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { roleName } from '#shared/session-token.ts';
import { type AuditActor, type Audited, recordAudit } from '../audit.ts';
import { type Author, judgeAgain } from '../current-caller.ts';
import { InvitationEntity, type InvitationRow, nobody } from '../db/invitation.entity.ts';
import { invitationMailKey, withdrawPending } from '../db/invitation.repository.ts';
import type { UserRow } from '../db/user.entity.ts';
import type { AuthDeps } from '../deps.ts';
import { platformChain } from '../domain/audit-chain.ts';
import { invitationLifetimeMs } from '../domain/invitation-status.ts';
import { invitationMail } from '../domain/mail-texts.ts';
import { mayInvite } from '../domain/member-rules.ts';
import { voidMailedLinks } from '../tokens/mailed-links.ts';
import { linkWithToken, newOneTimeToken } from '../tokens/one-time-token.ts';

type Deps = Pick<AuthDeps, 'clock' | 'outbox' | 'publicUrl'>;

/**
 * Makes an invitation and its mail, in the transaction of the call, which has locked the inviting (invitation-limits.ts). An earlier one to the
 * same address is withdrawn.
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
  const withdrawn = await withdraw(em, { tenantId, email }, () => by.actor, { clock });
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
  const mail = invitationMail({
    organization: organization?.name ?? null,
    role: roleName(role),
    link: linkWithToken(publicUrl, '/accept-invite', token),
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
  await recordAudit(em, clock, ...withdrawn, {
    tenantId,
    type: 'invitation_created',
    actor: by.actor,
    target: { type: 'invitation', id: invitation.id },
    after: { email, role: roleName(role) },
  });
  return invitation;
}

/**
 * Withdraws, in the transaction that changes a user, the pending invitations that no longer fit. Those which they have sent and may no longer
 * send, an operator to any organization: somebody removed or demoted could come back with one. And those of their organization to their
 * address, which may be new. Other organizations are not told who changed the user. Links mailed to somebody removed end too. Returns what
 * has to be recorded together with the change, so that all chains are locked at once, and after everything else.
 */
export async function withdrawUnfit(
  em: SqlEntityManager,
  { id, tenantId, email, isActive, role: own, operator }: UserRow,
  actor: AuditActor,
  { clock }: Pick<AuthDeps, 'clock'>,
): Promise<Audited[]> {
  if (!isActive) await voidMailedLinks(em, id, new Date(clock.now()));
  const operates = isActive && operator;
  const lost = [Role.MEMBER, Role.ADMIN, Role.OWNER].filter((role) => !operates && !(isActive && mayInvite(own, role)));
  const sent = { invitedByUserId: id, $or: [{ tenantId, role: { $in: lost } }, ...(operates ? [] : notOf(tenantId))] };
  const system = { type: AuditActorType.SYSTEM, id: 'auth', ip: '', requestId: actor.requestId };
  const actorIn = (place: string | null) => (place === tenantId ? actor : system);
  return withdraw(em, { $or: [sent, { tenantId, email }] }, actorIn, { clock });
}

/** An invitation without an organization makes a new one. */
const notOf = (tenantId: string) => [{ tenantId: { $ne: tenantId } }, { tenantId: null }];

/**
 * Withdraws a pending invitation of an organization, or, for null, one that makes a new one; one that is over stays as it is. Fails with
 * NOT_FOUND, or CONFLICT if it was accepted: whoever did so may be a stranger, as with a mistyped address, and stays.
 */
export function withdrawInvitation(
  where: { id: string; tenantId: string | null },
  by: Author,
  { database, clock }: Pick<AuthDeps, 'database' | 'clock'>,
): Promise<void> {
  const turn = { tenantId: where.tenantId ?? platformChain, signal: by.signal };
  return transactionInTurn(database, turn, async (em) => {
    await judgeAgain(em, by);
    await recordAudit(em, clock, ...(await withdraw(em, where, () => by.actor, { clock })));
    const invitation = await em.findOne(InvitationEntity, where, { disableIdentityMap: true });
    if (invitation === null) throw notFound('invitation');
    if (invitation.acceptedAt != null) {
      throw gatewayError(
        ErrorReason.CONFLICT,
        'This invitation was accepted. To keep out whoever accepted it, deactivate their account.',
      );
    }
  });
}

/** Withdraws those of some invitations that are pending; returns what has to be recorded. */
async function withdraw(
  em: SqlEntityManager,
  which: FilterQuery<InvitationRow>,
  actorIn: (tenantId: string | null) => AuditActor,
  { clock }: Pick<AuthDeps, 'clock'>,
): Promise<Audited[]> {
  const withdrawn = await withdrawPending(em, which, new Date(clock.now()));
  return withdrawn.map(({ id, tenantId = null, email }) => ({
    tenantId,
    type: 'invitation_withdrawn',
    actor: actorIn(tenantId),
    target: { type: 'invitation', id },
    before: { email },
  }));
}
