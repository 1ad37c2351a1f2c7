import type { LoginRequest, SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, hasReason } from '#shared/errors.ts';
import { type Caller, callerOf } from '#shared/rpc/caller.ts';
import { recordAudit, userActor } from '../audit.ts';
import { hasSignedInFrom } from '../db/session.repository.ts';
import { findUserByEmail, lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { openSession } from '../tokens/open-session.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'signingKeys' | 'publicUrl'>;

/** Opens a session. Whatever is wrong, and whether or not the user exists, the work and the answer are the same. */
export const login =
  (deps: Deps): AuthRpc<'login'> =>
  async (request, context) => {
    const { database, throttle } = deps;
    const caller = callerOf(context);
    const email = normalEmail(request.email);
    const knownAddress = await hasSignedInFrom(database, { email, ip: caller.ip });
    const attempt = { email, ip: caller.ip, knownAddress };
    await throttle.begin(attempt);

    const tokens = await signIn(deps, { ...request, email }, caller).catch(async (error) => {
      // An attempt that could not be judged is no guess.
      if (!hasReason(error, ErrorReason.INVALID_CREDENTIALS)) await throttle.takeBack(attempt);
      throw error;
    });
    await throttle.succeeded(attempt);
    return { tokens };
  };

async function signIn(
  deps: Deps,
  request: Pick<LoginRequest, 'email' | 'password' | 'userAgent'>,
  caller: Caller,
): Promise<SessionTokens> {
  const { database, clock, passwords } = deps;
  const found = await findUserByEmail(database.em(), request.email);
  const right = await passwords.verify(request.email, found?.passwordHash, request.password);
  if (!right || found === null) throw wrongCredentials();

  return transaction(database, async (em) => {
    const user = await lockUser(em, { id: found.id });
    // The password or the user may have changed while the hash was computed.
    if (!user.isActive || user.passwordHash !== found.passwordHash) throw wrongCredentials();
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

const wrongCredentials = () =>
  gatewayError(ErrorReason.INVALID_CREDENTIALS, 'The email address or the password is wrong.');
