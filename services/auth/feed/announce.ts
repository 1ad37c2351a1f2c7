import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Audited, recordAudit } from '../audit.ts';
import { endUserSessions } from '../db/session.repository.ts';
import type { UserRow } from '../db/user.entity.ts';
import type { AuthDeps } from '../deps.ts';
import { tokensNotBeforeAfter } from '../tokens/session-tokens.ts';
import { forgetAfterMs, recordChange } from './changes.ts';

type Deps = Pick<AuthDeps, 'clock' | 'feed' | 'keyRefreshes'>;

/**
 * Audits the change of a user and invalidates their earlier access tokens, in the transaction of the change; call this last. With
 * `endSessions` the refresh tokens end too; with `tellKeys` the user's keys follow their new state.
 */
export async function recordUserChange(
  em: SqlEntityManager,
  user: UserRow,
  change: Pick<Audited, 'type' | 'actor' | 'before' | 'after'> & {
    endSessions: boolean;
    tellKeys: boolean;
    /** What `withdrawUnfit` returned. */
    withdrawn?: readonly Audited[];
  },
  { clock, keyRefreshes }: Pick<Deps, 'clock' | 'keyRefreshes'>,
): Promise<bigint> {
  const { endSessions, tellKeys, withdrawn = [], ...audited } = change;
  const nowMs = clock.now();
  user.tokensNotBefore = tokensNotBeforeAfter(nowMs, user.tokensNotBefore);
  if (endSessions) await endUserSessions(em, user.id, new Date(nowMs));
  const target = { type: 'user', id: user.id };
  await recordAudit(em, clock, ...withdrawn, { tenantId: user.tenantId, target, ...audited });
  const version = await recordChange(em, {
    kind: 'user',
    subjectId: user.id,
    forgetAfterMs: forgetAfterMs(user.tokensNotBefore.getTime()),
  });
  if (tellKeys) await keyRefreshes.record(em, { kind: 'user', subjectId: user.id, version });
  return version;
}

/**
 * Waits until every live edge goes by a committed change, both for sessions and for keys. Fails when Keys is out of reach. A call that
 * changes nothing announces the current version, since it may repeat one that failed on the way.
 */
export async function announce(
  version: bigint,
  { feed, keyRefreshes }: Pick<Deps, 'feed' | 'keyRefreshes'>,
): Promise<void> {
  await Promise.all([keyRefreshes.deliver(), feed.knownEverywhere(version)]);
}
