import type { LoginRequest, SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Caller, callerOf } from '#shared/rpc/caller.ts';
import { recordAudit, userActor } from '../audit.ts';
import { findUserByEmail, lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { openSession } from '../tokens/open-session.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'signingKeys' | 'publicUrl'>;

/** Opens a session. Whatever is wrong, and whether or not the user exists, the work and the answer are the same. */
export const login =
  (deps: Deps): AuthRpc<'login'> =>
  async (request, context) => {
    const caller = callerOf(context);
    const email = normalEmail(request.email);
    const tokens = await deps.throttle.attempt({ email, ip: caller.ip }, () =>
      signIn(deps, { ...request, email }, caller),
    );
    if (tokens === null) {
      throw gatewayError(ErrorReason.INVALID_CREDENTIALS, 'The email address or the password is wrong.');
    }
    return { tokens };
  };

/** Null: the address or the password is wrong. */
async function signIn(
  deps: Deps,
  request: Pick<LoginRequest, 'email' | 'password' | 'userAgent'>,
  caller: Caller,
): Promise<SessionTokens | null> {
  const { database, clock, passwords } = deps;
  const found = await findUserByEmail(database.em(), request.email);
  const right = await passwords.verify(request.email, found?.passwordHash, request.password);
  if (!right || found === null) return null;

  return transaction(database, async (em) => {
    const user = await lockUser(em, { id: found.id });
    // The password or the user may have changed while the hash was computed.
    if (!user.isActive || user.passwordHash !== found.passwordHash) return null;
    user.lastLoginAt = new Date(clock.now());
    const session = await openSession(em, user, { ip: caller.ip, userAgent: request.userAgent }, deps);
    await em.flush();
    await recordAudit(em, clock, {
      tenantId: user.tenantId,
      type: 'session_started',
      actor: userActor(user.id, caller),
      target: { type: 'session', id: session.sessionId },
    });
    return session.tokens;
  });
}
