import { type Caller, CallerKind, callerOf } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { closeSession } from '../tokens/close-session.ts';
import { type RefreshClaims, readRefreshToken } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'signingKeys' | 'publicUrl' | 'feed'>;

/** Ends a session: the caller's, or that of the refresh token when the caller has none. */
export const logout =
  (deps: Deps): AuthRpc<'logout'> =>
  async (request, context) => {
    const caller = callerOf(context);
    const session = sessionOf(caller) ?? (await readRefreshToken(request.refreshToken, deps));
    if (session !== null) await closeSession(session, 'session_ended', caller, deps);
    return {};
  };

const sessionOf = (caller: Caller): RefreshClaims | null =>
  caller.kind === CallerKind.SESSION && caller.sessionId !== ''
    ? { tenantId: caller.tenantId, userId: caller.userId, sessionId: caller.sessionId }
    : null;
