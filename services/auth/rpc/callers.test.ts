import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { asService, Role } from '#shared/rpc/caller.ts';
import { anonymous, ownerEmail, ownerPassword, session, startTestAuth } from '../../../test/support/auth.ts';

/* Services in other languages name their callers themselves, so ids may be missing that the edge always has. */

test('a logout by a caller without a session ends the session of the refresh token, or none', async () => {
  await using fixture = await startTestAuth();
  const { auth, owner } = fixture;
  const { tokens } = await auth.login({ email: ownerEmail, password: ownerPassword }, anonymous());
  const { refreshToken } = tokens!;
  const noSession = session({ ...owner, role: Role.OWNER });
  await auth.logout({}, noSession);
  await auth.logout({ refreshToken }, noSession);
  await expect(auth.refresh({ refreshToken }, anonymous())).rejects.toMatchObject({
    reason: ErrorReason.INVALID_TOKEN,
  });
});

test('a profile is refused to a caller who is no user', async () => {
  await using fixture = await startTestAuth();
  for (const nobody of [asService('edge'), anonymous()]) {
    await expect(fixture.auth.getProfile({}, nobody)).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
  }
});
