import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { AuditActor } from '../audit.ts';
import type { UserRow } from '../db/user.entity.ts';
import type { AuthDeps } from '../deps.ts';
import { passwordChangedMail } from '../domain/mail-texts.ts';
import { recordUserChange } from '../feed/announce.ts';
import { voidMailedLinks } from '../tokens/mailed-links.ts';

type Deps = Pick<AuthDeps, 'clock' | 'outbox' | 'keyRefreshes'>;

/**
 * Sets the password of a locked user: all sessions and links from earlier mails end, and the user is told by mail. Returns the
 * version from which edges refuse the old tokens.
 */
export async function setPassword(
  em: SqlEntityManager,
  user: UserRow,
  change: { passwordHash: string; type: AuditEventType; actor: AuditActor },
  deps: Deps,
): Promise<bigint> {
  user.passwordHash = change.passwordHash;
  await voidMailedLinks(em, user.id, new Date(deps.clock.now()));
  await deps.outbox.enqueue(em, [
    {
      ...passwordChangedMail(),
      dedupeKey: `password-changed ${uuidv7()}`,
      kind: 'password_changed',
      toEmail: user.email,
      toUserId: user.id,
      secret: false,
    },
  ]);
  const { type, actor } = change;
  return recordUserChange(em, user, { type, actor, endSessions: true, tellKeys: false }, deps);
}
