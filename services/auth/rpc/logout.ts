import { transaction } from '#shared/db/transaction.ts';
import { type Caller, CallerKind, callerOf } from '#shared/rpc/caller.ts';
import { recordAudit, userActor } from '../audit.ts';
import { endSession } from '../db/session.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { forgetAfterMs, recordChange } from '../feed/changes.ts';
import { type RefreshClaims, readRefreshToken } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'signingKeys' | 'publicUrl' | 'feed'>;

/** Ends a session: the caller's, or the one of the refresh token when nobody is signed in. */
export const logout =
  (deps: Deps): AuthRpc<'logout'> =>
  async (request, context) => {
    const { database, clock, feed } = deps;
    const caller = callerOf(context);
    const session = sessionOf(caller) ?? (await readRefreshToken(request.refreshToken, deps));
    if (session === null) return {};
    const version = await transaction(database, async (em) => {
      const key = { tenantId: session.tenantId, id: session.sessionId };
      if (!(await endSession(em, key, new Date(clock.now())))) return null;
      await recordAudit(em, clock, {
        tenantId: session.tenantId,
        type: 'session_ended',
        actor: userActor(session.userId, caller),
        target: { type: 'session', id: session.sessionId },
      });
      return recordChange(em, { kind: 'session', subjectId: key.id, forgetAfterMs: forgetAfterMs(clock.now()) });
    });
    if (version !== null) await feed.leases.settled(version);
    return {};
  };

const sessionOf = (caller: Caller): RefreshClaims | null =>
  caller.kind === CallerKind.SESSION
    ? { tenantId: caller.tenantId, userId: caller.userId, sessionId: caller.sessionId }
    : null;
