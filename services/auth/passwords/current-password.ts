import { type GatewayError, invalidRequest } from '#shared/errors.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { UserRow } from '../db/user.entity.ts';
import { getUser } from '../db/user.repository.ts';
import type { AuthDeps } from '../deps.ts';

type Deps = Pick<AuthDeps, 'database' | 'passwords' | 'throttle'>;

/**
 * The caller, who has shown their password. A stolen session does not make it easier to guess: wrong ones slow down as at a login. The
 * password may change meanwhile, so compare its hash again under a lock.
 *
 * @throws GatewayError as `wrongPassword` makes it, or RATE_LIMITED.
 */
export async function userWithPassword(
  caller: Caller,
  currentPassword: string,
  { database, passwords, throttle }: Deps,
): Promise<UserRow> {
  const user = await getUser(database.em(), { id: caller.userId, tenantId: caller.tenantId });
  const shown = await throttle.attempt({ email: user.email, ip: caller.ip }, async () =>
    (await passwords.verify(user.email, user.passwordHash, currentPassword)) ? user : null,
  );
  if (shown === null) throw wrongPassword();
  return shown;
}

/** A 400: the session is valid, and a 401 would make clients refresh it. */
export const wrongPassword = (): GatewayError =>
  invalidRequest('current_password', 'The current password is wrong.', 'invalid_credentials');
