import { decodeJwt } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { patiently } from '#shared/db/patiently.ts';
import { ErrorReason } from '#shared/errors.ts';
import { anonymous, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { asTableOwner, join, reasonOf, strongPassword } from '../../../test/support/people.ts';

let fixture: TestAuth;
const clock = new ManualClock(Date.parse('2030-01-01T00:00:00.250Z'));
beforeAll(async () => {
  fixture = await startTestAuth({ clock });
});
afterAll(() => fixture.close());

let users = 0;
async function login() {
  users += 1;
  const { email } = await join(fixture, `user-${users}@example.com`);
  return (await fixture.auth.login({ email, password: strongPassword }, anonymous())).tokens!;
}
const refresh = async (refreshToken: string) => (await fixture.auth.refresh({ refreshToken }, anonymous())).tokens!;

test('a refresh token is spent on the next pair of the same session', async () => {
  const first = await login();
  const second = await refresh(first.refreshToken);
  expect(second.refreshToken).not.toBe(first.refreshToken);
  expect(decodeJwt(second.accessToken).sid).toBe(decodeJwt(first.accessToken).sid);
});

test('the immediate predecessor gets the very same pair for ten seconds', async () => {
  const first = await login();
  const second = await refresh(first.refreshToken);
  clock.advance(9_999);
  const repeated = await refresh(first.refreshToken);
  expect(repeated.accessToken).toBe(second.accessToken);
  expect(repeated.refreshToken).toBe(second.refreshToken);
});

test('fifty who spend one token at once all get the same pair', async () => {
  const first = await login();
  // On a busy machine the last of them are told to come again.
  const pairs = await Promise.all(Array.from({ length: 50 }, () => patiently(() => refresh(first.refreshToken))));
  expect(new Set(pairs.map((pair) => pair.refreshToken)).size).toBe(1);
});

test.each([
  ['the predecessor after the grace', 1, 10_000],
  ['the predecessor after the clock, which was ahead, was set right', 1, -3_600_000],
  ['an older token', 0, 0],
])('%s ends the whole family of tokens', async (_name, index, waitMs) => {
  const tokens = [(await login()).refreshToken];
  tokens.push((await refresh(tokens[0]!)).refreshToken);
  tokens.push((await refresh(tokens[1]!)).refreshToken);
  clock.set(clock.now() + waitMs);
  expect(await reasonOf(refresh(tokens[index]!))).toBe(ErrorReason.INVALID_TOKEN);
  for (const token of tokens) expect(await reasonOf(refresh(token))).toBe(ErrorReason.INVALID_TOKEN);
});

test('a refresh token ends after seven days', async () => {
  const { refreshToken } = await login();
  clock.advance(7 * 86_400_000 - 1_000);
  const next = await refresh(refreshToken);
  clock.advance(7 * 86_400_000);
  expect(await reasonOf(refresh(next.refreshToken))).toBe(ErrorReason.INVALID_TOKEN);
});

test('an access token is no refresh token', async () => {
  const { accessToken } = await login();
  expect(await reasonOf(refresh(accessToken))).toBe(ErrorReason.INVALID_TOKEN);
});

test('no issued token is in the database', async () => {
  const tokens = await login();
  const { rows } = await asTableOwner(fixture, 'select sessions::text as row from sessions');
  const dump = rows.map(({ row }) => row).join('\n');
  for (const token of [tokens.accessToken, tokens.refreshToken]) {
    expect(dump).not.toContain(token);
    expect(dump).not.toContain(token.split('.')[2]);
  }
});
