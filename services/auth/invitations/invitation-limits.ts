import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { countPendingForOthers, latestInvitations, latestPendingTo } from '../db/invitation.repository.ts';
import { UserEntity } from '../db/user.entity.ts';
import { findUserByEmail } from '../db/user.repository.ts';
import { addressWaitMs, countedUntil, hourlyMailsMax, refuseFlood } from '../domain/mail-limits.ts';

/** The most pending invitations of an organization. */
const pendingInvitationsMax = 100;

/** Locks an address until the transaction ends: while an invitation to it is being accepted, nobody is invited to it. */
export const lockInvitedAddress = (em: SqlEntityManager, email: string): Promise<void> =>
  takeAdvisoryLock(em, `invitations to ${email}`);

/**
 * Locks the inviting of an organization, and the address, until the transaction ends. Invitations that other organizations have sent to the
 * address do not count: a refusal would reveal them, and could be provoked.
 *
 * @throws GatewayError RATE_LIMITED when it must wait, CONFLICT for a member or when too many invitations are pending.
 */
export async function beginInviting(
  em: SqlEntityManager,
  { tenantId, email }: { tenantId: string; email: string },
  now: Date,
): Promise<void> {
  await takeAdvisoryLock(em, `invitations of ${tenantId}`);
  await lockInvitedAddress(em, email);
  await refuseMember(em, { tenantId, email });
  const latest = await latestInvitations(em, tenantId, {
    until: countedUntil(now.getTime()),
    limit: hourlyMailsMax,
  });
  refuseFlood(latest, email, now.getTime(), {
    toAddress: justInvited,
    hourly: `Your organization has sent ${hourlyMailsMax} invitations within the last hour. Try again later.`,
  });
  if ((await countPendingForOthers(em, { tenantId, email }, now)) >= pendingInvitationsMax) {
    throw gatewayError(
      ErrorReason.CONFLICT,
      `Your organization has ${pendingInvitationsMax} pending invitations. Withdraw one, or wait until one is accepted.`,
    );
  }
}

/** A deactivated member is not invited: they come back by being reactivated. */
export async function refuseMember(em: SqlEntityManager, member: { tenantId: string; email: string }): Promise<void> {
  // Somebody may have taken over the address of a deactivated one.
  const found = await em.findOne(UserEntity, member, { orderBy: { isActive: 'desc' } });
  if (found === null) return;
  const text = found.isActive
    ? 'This person is already a member.'
    : 'This person is a deactivated member: reactivate them instead.';
  throw gatewayError(ErrorReason.CONFLICT, text, { param: 'email' });
}

/**
 * Locks the inviting of an address by an operator, until the transaction ends. Operators may invite as often as they like, except that a loop
 * must not go on and on at one address, which `param` names.
 *
 * @throws GatewayError RATE_LIMITED when the address was just sent an invitation, CONFLICT when it has an account.
 */
export async function beginInvitingAsOperator(
  em: SqlEntityManager,
  { email, param }: { email: string; param: string },
  now: Date,
): Promise<void> {
  await lockInvitedAddress(em, email);
  if ((await findUserByEmail(em, email)) !== null) {
    throw gatewayError(
      ErrorReason.CONFLICT,
      'This person already has an account, so they could not accept an invitation.',
      { param },
    );
  }
  const waitMs = addressWaitMs(await latestPendingTo(em, email, countedUntil(now.getTime())), email, now.getTime());
  if (waitMs > 0) throw gatewayError(ErrorReason.RATE_LIMITED, justInvited, { param, retryAfterMs: waitMs });
}

const justInvited = 'An invitation was sent to this address less than a minute ago. Try again later.';
