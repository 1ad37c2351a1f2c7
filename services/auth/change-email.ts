import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { uuidv7 } from '#shared/ids.ts';
import type { UserRow } from './db/user.entity.ts';
import type { AuthDeps } from './deps.ts';
import { emailChangedMail, emailSetMail } from './domain/mail-texts.ts';
import { voidMailedLinks } from './tokens/mailed-links.ts';

type Deps = Pick<AuthDeps, 'clock' | 'outbox'>;

/**
 * Changes the address of a locked user, in a transaction that has locked the new one (invitations/invitation-limits.ts): links from earlier
 * mails end, and the former address is told. So is the new one, unless its reader has just proved to be the user (`isVerified`). Sessions go
 * on. Fails with the violation that `refuseTakenAddress` knows. Call `withdrawUnfit` after it, and audit the change.
 */
export async function changeEmail(
  em: SqlEntityManager,
  user: UserRow,
  { email, isVerified }: { email: string; isVerified: boolean },
  { clock, outbox }: Deps,
): Promise<void> {
  const former = user.email;
  user.email = email;
  user.emailVerified = isVerified;
  await em.flush();
  await voidMailedLinks(em, user.id, new Date(clock.now()));
  const id = uuidv7();
  const notice = { kind: 'email_changed', toUserId: user.id, secret: false };
  const toFormer = emailChangedMail({ to: email, byOperator: !isVerified });
  await outbox.enqueue(em, [{ ...toFormer, ...notice, dedupeKey: `email-changed ${id} former`, toEmail: former }]);
  if (!isVerified) {
    const toNew = emailSetMail({ from: former });
    await outbox.enqueue(em, [{ ...toNew, ...notice, dedupeKey: `email-changed ${id} new`, toEmail: email }]);
  }
}
