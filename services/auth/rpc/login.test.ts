import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { asService } from '#shared/rpc/caller.ts';
import {
  anonymous,
  ownerEmail,
  ownerPassword,
  publicUrl,
  startTestAuth,
  type TestAuth,
} from '../../../test/support/auth.ts';
import { asTableOwner } from '../../../test/support/people.ts';

let fixture: TestAuth;
beforeAll(async () => {
  fixture = await startTestAuth();
});
afterAll(() => fixture.close());

test('a login returns tokens with the claims of the decisions', async () => {
  const { auth, owner } = fixture;
  const { tokens } = await auth.login({ email: ` ${ownerEmail.toUpperCase()}`, password: ownerPassword }, anonymous());
  expect(decodeProtectedHeader(tokens!.accessToken)).toEqual({ alg: 'EdDSA', typ: 'at+jwt', kid: expect.any(String) });
  const claims = decodeJwt(tokens!.accessToken);
  expect(claims).toEqual({
    iss: publicUrl,
    aud: 'model-gateway',
    sub: owner.userId,
    tenant_id: owner.tenantId,
    role: 'owner',
    operator: true,
    sid: expect.any(String),
    jti: expect.any(String),
    iat: expect.any(Number),
    exp: claims.iat! + 1800,
  });
  expect(decodeProtectedHeader(tokens!.refreshToken).typ).toBe('rt+jwt');
  const refreshClaims = decodeJwt(tokens!.refreshToken);
  expect(refreshClaims.exp! - refreshClaims.iat!).toBe(7 * 86_400);
  expect(tokens!.expiresInSeconds).toBe(1800);
  expect(tokens!.user).toMatchObject({ email: ownerEmail, isActive: true });
});

test('an unknown address and a wrong password get the same answer', async () => {
  const { auth } = fixture;
  const attempts = [
    { email: ownerEmail, password: 'wrong' },
    { email: 'nobody@example.com', password: ownerPassword },
  ];
  const errors = await Promise.all(
    attempts.map((attempt) => auth.login(attempt, anonymous('192.0.2.2')).catch((error) => error)),
  );
  for (const error of errors) expect(error.reason).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(errors[0].message).toBe(errors[1].message);
  expect(errors[0].details).toEqual(errors[1].details);
});

test('a second bootstrap changes nothing', async () => {
  const { auth, owner } = fixture;
  const { contextValues } = asService('test');
  const again = await auth.bootstrap(
    { email: 'other@example.com', password: 'Another-password-1', organizationName: 'Second' },
    { contextValues },
  );
  expect(again).toMatchObject({ created: false, email: ownerEmail, tenantId: owner.tenantId });
});

test('a password that the gateway could not check does not count as a wrong one', async () => {
  const { auth } = fixture;
  const address = anonymous('192.0.2.77');
  const right = { email: ownerEmail, password: ownerPassword };
  await asTableOwner(fixture, 'alter table sessions add constraint away check (false) not valid');
  for (let tries = 0; tries < 30; tries += 1) {
    await expect(auth.login(right, address)).rejects.toMatchObject({ reason: ErrorReason.INTERNAL });
  }
  await asTableOwner(fixture, 'alter table sessions drop constraint away');
  expect((await auth.login(right, address)).tokens).toBeDefined();
});

test('tries at an account that has to wait, which nobody judges, do not make others of the same address wait', async () => {
  const { auth } = fixture;
  const guessed = { email: 'guessed@example.com', password: 'wrong' };
  for (let tries = 0; tries < 6; tries += 1) {
    await expect(auth.login(guessed, anonymous('203.0.113.66'))).rejects.toMatchObject({
      reason: ErrorReason.INVALID_CREDENTIALS,
    });
  }
  const office = anonymous('192.0.2.88');
  const right = { email: ownerEmail, password: ownerPassword };
  await auth.login(right, office);
  const answers = Array.from({ length: 30 }, () => auth.login(guessed, office).catch(({ reason }) => reason));
  expect(new Set(await Promise.all(answers))).toContain(ErrorReason.RATE_LIMITED);
  expect((await auth.login(right, office)).tokens).toBeDefined();
});
