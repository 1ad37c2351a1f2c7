import { afterAll, beforeAll, expect, test } from 'vitest';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, ownerEmail, session, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import {
  as,
  asTableOwner,
  atOnce,
  join,
  lockWaiters,
  onDatabase,
  ownerOf,
  reasonOf,
  strongPassword,
  tokenMailedTo,
} from '../../../test/support/people.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let fixture: TestAuth;
const clock = new ManualClock(Date.parse('2030-01-01T00:00:00.500Z'));
beforeAll(async () => {
  fixture = await startTestAuth({ clock });
});
afterAll(() => fixture.close());

const login = async (email: string, password: string, ip?: string) =>
  (await fixture.auth.login({ email, password }, anonymous(ip))).tokens!;
const reset = (token: string, newPassword = 'An0ther-password') =>
  fixture.auth.resetPassword({ token, newPassword }, anonymous());
const forgot = (email: string) => fixture.auth.forgotPassword({ email }, anonymous());

test('a reset by mail sets the password, once, and ends every session', async () => {
  const { email } = await join(fixture, 'forgetful@example.com');
  const { refreshToken } = await login(email, strongPassword);
  await forgot(email.toUpperCase());
  const token = await tokenMailedTo(fixture, email);
  const [one, two] = await Promise.all([reasonOf(reset(token)), reasonOf(reset(token))]);
  expect([one, two].toSorted()).toEqual([ErrorReason.INVALID_CODE, null].toSorted());
  expect(await reasonOf(fixture.auth.refresh({ refreshToken }, anonymous()))).toBe(ErrorReason.INVALID_TOKEN);
  expect(await reasonOf(login(email, strongPassword))).toBe(ErrorReason.INVALID_CREDENTIALS);
  await login(email, 'An0ther-password');
});

test('a reset link ends after an hour', async () => {
  const { email } = await join(fixture, 'slow@example.com');
  await forgot(email);
  const token = await tokenMailedTo(fixture, email);
  clock.advance(3_600_000);
  expect(await reasonOf(reset(token))).toBe(ErrorReason.INVALID_CODE);
});

test('asking for a reset gets the same answer for any address, and sends a known one one mail a minute', async () => {
  const { email } = await join(fixture, 'asked@example.com');
  const mailed = async () =>
    (await asTableOwner(fixture, `select to_email from mails where kind = 'password_reset'`)).rows
      .map((row) => row.to_email)
      .filter((address) => [email, 'nobody@example.com'].includes(address));
  expect(await forgot(email)).toMatchObject({});
  for (const answer of await Promise.all([email, 'nobody@example.com'].map(forgot))) expect(answer).toMatchObject({});
  expect(await mailed()).toEqual([email]);
  // One mail of a clock that was ahead holds back no other.
  const aheadMs = clock.now();
  clock.set(aheadMs - 3_600_000);
  await forgot(email);
  clock.set(aheadMs);
  expect(await mailed()).toEqual([email, email]);
});

test('simultaneous requests to reset one account, from many addresses, send it one mail', async () => {
  const { email } = await join(fixture, 'asked-at-once@example.com');
  const addresses = [1, 2, 3, 4, 5].map((nth) => `198.51.100.${100 + nth}`);
  await atOnce(
    fixture,
    addresses.map((ip) => () => fixture.auth.forgotPassword({ email }, anonymous(ip))),
  );
  const text = `select from mails where kind = 'password_reset' and to_email = $1`;
  expect((await asTableOwner(fixture, text, [email])).rows).toHaveLength(1);
});

test('changing the password ends all sessions and voids links in earlier mails; a wrong current one changes nothing', async () => {
  const user = await join(fixture, 'changer@example.com');
  const { refreshToken } = await login(user.email, strongPassword);
  await forgot(user.email);
  const earlierLink = await tokenMailedTo(fixture, user.email);
  const change = (currentPassword: string, newPassword = 'Ch4nged-password') =>
    fixture.auth.changePassword(
      { currentPassword, newPassword },
      session({ userId: user.id, tenantId: user.tenantId, role: Role.MEMBER }),
    );
  const wrong = await change('wrong').catch((error) => error);
  expect([wrong.reason, wrong.details.param]).toEqual([ErrorReason.INVALID_REQUEST, 'current_password']);
  expect((await change(strongPassword, 'weak').catch((error) => error)).details.param).toBe('new_password');
  await change(strongPassword);
  expect(await reasonOf(fixture.auth.refresh({ refreshToken }, anonymous()))).toBe(ErrorReason.INVALID_TOKEN);
  expect(await reasonOf(reset(earlierLink))).toBe(ErrorReason.INVALID_CODE);
  await login(user.email, 'Ch4nged-password');
});

test('a link that is asked for just as the password is changed, or its owner deactivated, ends with the earlier ones', async () => {
  const passwords = { currentPassword: strongPassword, newPassword: 'Ch4nged-password' };
  const deactivate = (userId: string) => fixture.auth.updateMember({ userId, isActive: false }, ownerOf(fixture));
  for (const name of ['changed', 'deactivated']) {
    const user = await join(fixture, `${name}.at.once@example.com`);
    const change = () => fixture.auth.changePassword(passwords, as(user));
    await atOnce(fixture, [() => forgot(user.email), () => (name === 'changed' ? change() : deactivate(user.id))]);
    const links = 'select used_at is not null as "isOver" from password_resets where user_id = $1';
    expect((await asTableOwner(fixture, links, [user.id])).rows).toEqual([{ isOver: true }]);
  }
});

test('guessing the current password is slowed down like a login, even within a session and from many addresses', async () => {
  const user = await join(fixture, 'stolen-session@example.com');
  const reasons: (ErrorReason | null)[] = [];
  for (let guess = 0; guess < 8; guess += 1) {
    const passwords = { currentPassword: `guess ${guess}`, newPassword: 'Ch4nged-password' };
    const caller = { userId: user.id, tenantId: user.tenantId, role: Role.MEMBER, ip: `198.18.2.${guess}` };
    reasons.push(await reasonOf(fixture.auth.changePassword(passwords, session(caller))));
  }
  expect(reasons[0]).toBe(ErrorReason.INVALID_REQUEST);
  expect(reasons.at(-1)).toBe(ErrorReason.RATE_LIMITED);
});

test('someone who has set a password by mail can sign in at once, however often the old one was guessed', async () => {
  const { email } = await join(fixture, 'guessed@example.com');
  await forgot(email);
  const token = await tokenMailedTo(fixture, email);
  let reason: ErrorReason | null = null;
  for (let guess = 0; guess < 12 && reason !== ErrorReason.RATE_LIMITED; guess += 1) {
    reason = await reasonOf(login(email, `guess ${guess}`, `198.18.1.${guess}`));
  }
  expect(reason).toBe(ErrorReason.RATE_LIMITED);
  await reset(token);
  await login(email, 'An0ther-password', '198.18.1.200');
});

test('someone who has forgotten the password at home can sign in there at once after setting another by mail', async () => {
  const { email } = await join(fixture, 'forgetful-at-home@example.com');
  const home = '198.18.2.1';
  await login(email, strongPassword, home);
  for (let guess = 0; guess < 6; guess += 1) await reasonOf(login(email, `guess ${guess}`, home));
  expect(await reasonOf(login(email, strongPassword, home))).toBe(ErrorReason.RATE_LIMITED);
  await forgot(email);
  const token = await tokenMailedTo(fixture, email);
  await fixture.auth.resetPassword({ token, newPassword: 'An0ther-password' }, anonymous(home));
  await login(email, 'An0ther-password', home);
});

test('a password or user that changes while a password is checked opens no session and changes no password or address', async () => {
  const { id, tenantId, email } = await join(fixture, 'overtaken@example.com');
  const { rows } = await asTableOwner(fixture, 'select password_hash as hash from users where id = $1', [id]);
  /** The outcome of a call that read the user before a change and then waits for it. */
  const overtaken = (change: string, call: () => Promise<unknown>) =>
    onDatabase(fixture, async (client) => {
      await client.query(`begin; update users set ${change} where id = '${id}'`);
      const reason = reasonOf(call());
      const description = 'the call to wait for the change';
      await waitFor(async () => (await lockWaiters(fixture)) === 1, { description });
      await client.query('commit');
      const answer = await reason;
      await client.query('update users set is_active = true, password_hash = $2 where id = $1', [id, rows[0].hash]);
      return answer;
    });
  const signIn = () => login(email, strongPassword);
  const change = () =>
    fixture.auth.changePassword(
      { currentPassword: strongPassword, newPassword: 'Ch4nged-password' },
      session({ userId: id, tenantId, role: Role.MEMBER }),
    );
  const ask = () =>
    fixture.auth.requestEmailChange(
      { email: 'thief@example.com', currentPassword: strongPassword },
      session({ userId: id, tenantId, role: Role.MEMBER }),
    );
  const anotherHash = `password_hash = 'another'`;
  expect(await overtaken('is_active = false', signIn)).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(await overtaken(anotherHash, signIn)).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(await overtaken(anotherHash, change)).toBe(ErrorReason.INVALID_REQUEST);
  expect(await overtaken(anotherHash, ask)).toBe(ErrorReason.INVALID_REQUEST);
});

test('guessing from unknown addresses is slowed down per account, and the owner at a known one can sign in', async () => {
  const { email } = await join(fixture, 'target@example.com');
  const home = '198.51.100.7';
  await login(email, strongPassword, home);
  const reasons: (ErrorReason | null)[] = [];
  for (let guess = 0; guess < 12; guess += 1) {
    reasons.push(await reasonOf(login(email, `guess ${guess}`, `203.0.113.${guess}`)));
  }
  expect(reasons.filter((reason) => reason === ErrorReason.INVALID_CREDENTIALS).length).toBeLessThanOrEqual(6);
  expect(reasons.at(-1)).toBe(ErrorReason.RATE_LIMITED);
  await login(email, strongPassword, home);
  // From elsewhere the owner waits a minute at most.
  clock.advance(60_000);
  await login(email, strongPassword, '203.0.113.200');
});

test('an IPv6 address is known by its network, since systems change the rest of it every day', async () => {
  const { email } = await join(fixture, 'private@example.com');
  await login(email, strongPassword, '2001:db8:7:8::1');
  let reason: ErrorReason | null = null;
  for (let guess = 0; guess < 7; guess += 1)
    reason = await reasonOf(login(email, `guess ${guess}`, `203.0.114.${guess}`));
  expect(reason).toBe(ErrorReason.RATE_LIMITED);
  expect(await reasonOf(login(email, strongPassword, '2001:db8:7:9::1'))).toBe(ErrorReason.RATE_LIMITED);
  await login(email, strongPassword, '2001:db8:7:8:a1b2:c3d4:e5f6:1');
});

test('guesses at one address from which the owner has signed in do not slow the owner down at another', async () => {
  const { email } = await join(fixture, 'traveller@example.com');
  const [home, hotel] = ['198.51.100.8', '198.51.100.9'];
  for (const ip of [home, hotel]) await login(email, strongPassword, ip);
  let reason: ErrorReason | null = null;
  for (let guess = 0; guess < 7; guess += 1) reason = await reasonOf(login(email, `guess ${guess}`, hotel));
  expect(reason).toBe(ErrorReason.RATE_LIMITED);
  await login(email, strongPassword, home);
});

test('after five wrong guesses one has to wait a second, then twice as long each time, up to a minute', async () => {
  const { email } = await join(fixture, 'waited-for@example.com');
  let guesses = 0;
  const guess = () => {
    guesses += 1;
    return login(email, 'guess', `203.0.114.${guesses}`).catch((error) => error);
  };
  for (let free = 0; free < 5; free += 1) expect((await guess()).reason).toBe(ErrorReason.INVALID_CREDENTIALS);
  const waitsMs: number[] = [];
  while (waitsMs.length < 8) {
    expect((await guess()).reason).toBe(ErrorReason.INVALID_CREDENTIALS);
    const { reason, details } = await guess();
    expect(reason).toBe(ErrorReason.RATE_LIMITED);
    waitsMs.push(details.retryAfterMs);
    clock.advance(details.retryAfterMs);
  }
  expect(waitsMs).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  expect((await guess()).reason).toBe(ErrorReason.INVALID_CREDENTIALS);
  // Nobody waits for the hour by which a clock was ahead, and guesses still count.
  const aheadMs = clock.now();
  clock.set(aheadMs - 3_600_000);
  expect((await guess()).reason).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect((await guess()).details.retryAfterMs).toBe(60_000);
  clock.set(aheadMs);
});

test('of a thousand guesses from many addresses all but a few are refused, and the owner is not locked out', async () => {
  const { email } = await join(fixture, 'stuffed@example.com');
  const home = '198.51.100.8';
  await login(email, strongPassword, home);
  const reasons: (ErrorReason | null)[] = [];
  let guess = 0;
  const guesser = async (): Promise<void> => {
    while (guess < 1_000) {
      guess += 1;
      const address = `10.${guess % 7}.${guess >> 8}.${guess & 255}`;
      reasons.push(await reasonOf(login(email, `guess ${guess}`, address)));
    }
  };
  await Promise.all(Array.from({ length: 8 }, guesser));
  const wrong = reasons.filter((reason) => reason === ErrorReason.INVALID_CREDENTIALS);
  expect(wrong.length).toBeLessThanOrEqual(20);
  expect(reasons.filter((reason) => reason === ErrorReason.RATE_LIMITED)).toHaveLength(reasons.length - wrong.length);
  await login(email, strongPassword, home);
});

test('a password that was set, and a login that was right, are answered so, though earlier failures cannot be forgotten', async () => {
  const { email } = await join(fixture, 'unforgiven@example.com');
  await forgot(email);
  const token = await tokenMailedTo(fixture, email);
  await asTableOwner(
    fixture,
    `create function keep() returns trigger language plpgsql as $$ begin raise exception 'kept'; end $$;
     create trigger keep before delete on login_throttles for each statement execute function keep()`,
  );
  try {
    await reset(token);
    expect((await login(email, 'An0ther-password')).user!.email).toBe(email);
  } finally {
    await asTableOwner(fixture, 'drop function keep cascade');
  }
});

test('an unknown account is slowed down like a known one', async () => {
  const { email } = await join(fixture, 'known@example.com');
  const answersFor = async (address: string, net: string) => {
    const answers: string[] = [];
    for (let guess = 0; guess < 8; guess += 1) {
      const error = await login(address, `guess ${guess}`, `${net}.${guess}`).catch((caught) => caught);
      answers.push(`${error.reason} ${error.message}`);
    }
    return answers;
  };
  expect(await answersFor('unknown@example.com', '192.0.2')).toEqual(await answersFor(email, '198.18.0'));
});

test('people who sign in correctly at the same moment do not slow each other down, and leave no failure behind', async () => {
  const { email } = await join(fixture, 'busy@example.com');
  const failures = async () =>
    (await asTableOwner(fixture, 'select sum(failures)::int as failures from login_throttles')).rows[0].failures;
  const before = await failures();
  const logins = Array.from({ length: 5 }, () => login(email, strongPassword, '198.51.100.9'));
  expect(await Promise.all(logins)).toHaveLength(5);
  expect(await failures()).toBe(before);
});

test('trying many accounts from one address is slowed down, for IPv6 by its network', async () => {
  const reasons: (ErrorReason | null)[] = [];
  for (let guess = 0; guess < 30; guess += 1) {
    reasons.push(await reasonOf(login(`victim-${guess}@example.com`, 'guess', `2001:db8:1:2::${guess.toString(16)}`)));
  }
  expect(reasons[0]).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(reasons.at(-1)).toBe(ErrorReason.RATE_LIMITED);
  expect(await reasonOf(login(ownerEmail, 'guess', '2001:db8:1:3::1'))).toBe(ErrorReason.INVALID_CREDENTIALS);
});

test('requests for mails from one address are slowed down, whoever they are for', async () => {
  const asked = Array.from({ length: 30 }, (_, nth) =>
    fixture.auth
      .forgotPassword({ email: `nobody-${nth}@example.com` }, anonymous('203.0.113.77'))
      .catch((error) => error),
  );
  const refusals = (await Promise.all(asked)).filter((answer) => answer instanceof GatewayError);
  expect(refusals.length).toBeGreaterThan(0);
  expect(refusals.length).toBeLessThan(asked.length);
  for (const { reason, message } of refusals) {
    expect([reason, message]).toEqual([
      ErrorReason.RATE_LIMITED,
      'Too many emails were requested from your IP address. Try again later.',
    ]);
  }
});
