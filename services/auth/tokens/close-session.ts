import { transaction } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { recordAudit, userActor } from '../audit.ts';
import { endSession } from '../db/session.repository.ts';
import type { AuthDeps } from '../deps.ts';
import { forgetAfterMs, recordChange } from '../feed/changes.ts';
import type { RefreshClaims } from './session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed'>;

/**
 * Ends a session with all its tokens, records why, and waits until every live edge refuses its access token. This also waits if the session
 * was over already: the call may repeat one that failed on the way.
 */
export async function closeSession(
  session: RefreshClaims,
  why: 'session_ended' | 'refresh_token_reused',
  caller: Caller,
  { database, clock, feed }: Deps,
): Promise<void> {
  const { tenantId, userId, sessionId } = session;
  const version = await transaction(database, async (em) => {
    if (!(await endSession(em, { tenantId, id: sessionId }, new Date(clock.now())))) return currentVersion(em);
    await recordAudit(em, clock, {
      tenantId,
      type: why,
      actor: userActor(userId, caller),
      target: { type: 'session', id: sessionId },
    });
    return recordChange(em, { kind: 'session', subjectId: sessionId, forgetAfterMs: forgetAfterMs(clock.now()) });
  });
  await feed.knownEverywhere(version);
}
