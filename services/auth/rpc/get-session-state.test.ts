import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { asService } from '#shared/rpc/caller.ts';
import { anonymous, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { asTableOwner, join, operatorOf, strongPassword } from '../../../test/support/people.ts';

let fixture: TestAuth;
beforeAll(async () => {
  fixture = await startTestAuth();
});
afterAll(() => fixture.close());

let users = 0;
async function signIn() {
  users += 1;
  const { email } = await join(fixture, `user-${users}@example.com`);
  const { tokens } = await fixture.auth.login({ email, password: strongPassword }, anonymous());
  const { sid, sub, iat } = decodeJwt(tokens!.accessToken);
  return { sessionId: String(sid), userId: sub!, issuedAt: timestampFromMs(iat! * 1_000) };
}
type Token = Awaited<ReturnType<typeof signIn>>;

const isAccepted = async (token: Token) => (await fixture.auth.getSessionState(token, asService('edge'))).accepted;

let token: Token;
beforeEach(async () => {
  token = await signIn();
  expect(await isAccepted(token)).toBe(true);
});

test('the token of a deactivated user is not accepted', async () => {
  await asTableOwner(fixture, 'update users set is_active = false where id = $1', [token.userId]);
  expect(await isAccepted(token)).toBe(false);
});

test('nor is one from before the user’s tokens were revoked; one from that moment is', async () => {
  await asTableOwner(fixture, 'update users set tokens_not_before = to_timestamp($2) where id = $1', [
    token.userId,
    Number(token.issuedAt.seconds),
  ]);
  expect(await isAccepted(token)).toBe(true);
  await asTableOwner(fixture, `update users set tokens_not_before = tokens_not_before + interval '1 s' where id = $1`, [
    token.userId,
  ]);
  expect(await isAccepted(token)).toBe(false);
});

test('nor is one that names the session of somebody else', async () => {
  const other = await signIn();
  expect(await isAccepted({ ...token, sessionId: other.sessionId })).toBe(false);
});

test('nor is one whose session a compromised signing key has ended', async () => {
  await fixture.auth.rotateSigningKey({ compromised: true }, operatorOf(fixture));
  expect(await isAccepted(token)).toBe(false);
});
