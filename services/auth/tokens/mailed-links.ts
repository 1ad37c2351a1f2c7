import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { EmailChangeEntity } from '../db/email-change.entity.ts';
import { dropQueued } from '../db/mail.repository.ts';
import { PasswordResetEntity } from '../db/password-reset.entity.ts';

/** The name of the lock of whoever mails a user a link for a new password, and of whoever ends those. */
export const lockOfResets = (userId: string): string => `password reset ${userId}`;

/** Voids a user's mailed links for another address, and drops those of their mails that nobody has received. */
export async function voidEmailLinks(em: SqlEntityManager, userId: string, now: Date): Promise<void> {
  await em.nativeUpdate(EmailChangeEntity, { userId, usedAt: null }, { usedAt: now });
  await dropQueued(em, { toUserId: userId, kind: 'email_change' }, now);
}

/** Voids all mailed links of a user, those for a new password too, also one that is on its way, and drops mails that nobody has received. */
export async function voidMailedLinks(em: SqlEntityManager, userId: string, now: Date): Promise<void> {
  await takeAdvisoryLock(em, lockOfResets(userId));
  await em.nativeUpdate(PasswordResetEntity, { userId, usedAt: null }, { usedAt: now });
  await dropQueued(em, { toUserId: userId, kind: 'password_reset' }, now);
  await voidEmailLinks(em, userId, now);
}
