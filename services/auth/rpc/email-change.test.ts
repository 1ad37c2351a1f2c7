import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason } from '#shared/errors.ts';
import { anonymous, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import {
  as,
  asTableOwner,
  atOnce,
  join,
  operatorOf,
  ownerOf,
  type Person,
  reasonOf,
  strongPassword,
  tokenMailedTo,
} from '../../../test/support/people.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { latestEmailChangesOf } from '../db/email-change.repository.ts';
import { entities } from '../db/entities.ts';

let fixture: TestAuth;
const clock = new ManualClock(Date.parse('2030-01-01T00:00:00.500Z'));
beforeAll(async () => {
  fixture = await startTestAuth({ clock });
});
afterAll(() => fixture.close());
// Long enough for earlier requests for mails to be forgotten.
beforeEach(() => clock.advance(16 * 60_000));

const login = (email: string) => fixture.auth.login({ email, password: strongPassword }, anonymous());
const ask = (user: Person, email: string, currentPassword = strongPassword) =>
  fixture.auth.requestEmailChange({ email, currentPassword }, as(user));
const confirm = (user: Person, token: string) => fixture.auth.confirmEmailChange({ token }, as(user));
const setByOperator = (userId: string, email: string) =>
  fixture.auth.adminUpdateUser({ userId, email }, operatorOf(fixture));

/** The kinds of the mails to an address, oldest first. */
const mailedTo = async (email: string): Promise<string[]> =>
  (await asTableOwner(fixture, 'select kind from mails where to_email = $1 order by id', [email])).rows.map(
    ({ kind }) => kind,
  );

/** What the audit trail says about a user, oldest first. */
async function auditOf(user: Person) {
  const { events } = await fixture.auth.listAuditEvents({ targetId: user.id }, ownerOf(fixture));
  return events
    .map(({ record }) => [record!.type, record!.beforeJson, record!.afterJson])
    .filter(([type]) => type !== 'mail_link_shown')
    .toReversed();
}

/** A user who has asked for another address, and the token that was mailed there. */
async function asking(from: string, to: string) {
  const user = await join(fixture, from);
  await ask(user, to);
  return { user, token: await tokenMailedTo(fixture, to) };
}

test('whoever confirms a new address signs in with it from then on, and keeps their id, role and sessions; both addresses were told', async () => {
  const user = await join(fixture, 'maiden.name@example.com');
  const { tokens } = await login(user.email);
  await ask(user, 'Married.Name@Example.com');
  expect((await login(user.email)).tokens, 'nothing changes before').toBeDefined();
  const token = await tokenMailedTo(fixture, 'married.name@example.com');
  const answer = await confirm(user, token);
  expect(answer.user).toMatchObject({ id: user.id, role: user.role, emailVerified: true });
  expect(answer.user!.email).toBe('married.name@example.com');
  expect(answer.organization!.name).toBe('First');
  expect(await reasonOf(login(user.email))).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect((await login('MARRIED.name@example.com')).tokens!.user!.id).toBe(user.id);
  const refreshed = await fixture.auth.refresh({ refreshToken: tokens!.refreshToken }, anonymous());
  expect(refreshed.tokens!.user!.email).toBe('married.name@example.com');
  expect(await mailedTo(user.email)).toEqual(['invitation', 'email_change_requested', 'email_changed']);
  expect(await mailedTo('married.name@example.com')).toEqual(['email_change']);
  expect(await auditOf(user)).toEqual([
    ['email_change_requested', '', '{"email":"married.name@example.com"}'],
    ['email_changed', `{"email":"${user.email}"}`, '{"email":"married.name@example.com"}'],
  ]);
});

test('a link to a new address works once, however often it is opened at the same moment', async () => {
  const { user, token } = await asking('eager@example.com', 'eager.new@example.com');
  const outcomes: (ErrorReason | null)[] = [];
  const open = async () => void outcomes.push(await reasonOf(confirm(user, token)));
  await atOnce(fixture, [open, open, open]);
  expect(outcomes.toSorted()).toEqual([null, ErrorReason.INVALID_CODE, ErrorReason.INVALID_CODE].toSorted());
});

test('a link to a new address is of no use to a stranger whom a mistyped address has sent it to', async () => {
  const { user, token } = await asking('typist@example.com', 'mistyped@example.com');
  const stranger = await join(fixture, 'stranger@example.com');
  expect(await reasonOf(confirm(stranger, token))).toBe(ErrorReason.INVALID_CODE);
  expect(await reasonOf(fixture.auth.confirmEmailChange({ token }, anonymous()))).not.toBeNull();
  expect(await reasonOf(login(user.email))).toBeNull();
});

test('a link to a new address ends after an hour', async () => {
  const { user, token } = await asking('slow@example.com', 'slow.new@example.com');
  clock.advance(3_600_000);
  expect(await reasonOf(confirm(user, token))).toBe(ErrorReason.INVALID_CODE);
});

test.each<[string, (user: Person & { email: string }) => Promise<unknown>]>([
  ['another request', (user) => ask(user, 'third@example.com')],
  [
    'a change of the password',
    (user) =>
      fixture.auth.changePassword({ currentPassword: strongPassword, newPassword: 'Ch4nged-password' }, as(user)),
  ],
  ['another address, given by an operator', (user) => setByOperator(user.id, `given.${user.email}`)],
  [
    'a deactivation, though it is undone',
    async ({ id: userId }) => {
      await fixture.auth.updateMember({ userId, isActive: false }, ownerOf(fixture));
      await fixture.auth.updateMember({ userId, isActive: true }, ownerOf(fixture));
    },
  ],
])('%s voids an earlier link to a new address, and drops its mail', async (what, act) => {
  const name = what.replace(/\W+/g, '-');
  const { user, token } = await asking(`${name}@example.com`, `${name}.new@example.com`);
  clock.advance(60_000);
  await act(user);
  expect(await reasonOf(confirm(user, token))).toBe(ErrorReason.INVALID_CODE);
  const { rows } = await asTableOwner(fixture, 'select expires_at from mails where to_email = $1', [
    `${name}.new@example.com`,
  ]);
  expect(rows.map(({ expires_at }) => expires_at.getTime() <= clock.now())).toEqual([true]);
});

test('a changed address voids links for a new password that went to the former one', async () => {
  const { user, token } = await asking('moved@example.com', 'moved.new@example.com');
  await fixture.auth.forgotPassword({ email: user.email }, anonymous());
  const reset = await tokenMailedTo(fixture, user.email);
  await confirm(user, token);
  const spent = fixture.auth.resetPassword({ token: reset, newPassword: 'An0ther-password' }, anonymous());
  expect(await reasonOf(spent)).toBe(ErrorReason.INVALID_CODE);
});

test('a link for a new password that is asked for at the moment of the change does not work either', async () => {
  const { user, token } = await asking('watched@example.com', 'watched.new@example.com');
  await atOnce(fixture, [
    () => fixture.auth.forgotPassword({ email: user.email }, anonymous()),
    () => confirm(user, token),
  ]);
  const { rows } = await asTableOwner(fixture, 'select used_at from password_resets where user_id = $1', [user.id]);
  expect(rows).toEqual([{ used_at: expect.any(Date) }]);
});

test('asking for an address that another user has is answered and audited like any other, and only that user is told', async () => {
  const user = await join(fixture, 'curious@example.com');
  const other = await join(fixture, 'known@example.com');
  const answers = [await ask(user, other.email)];
  clock.advance(60_000);
  answers.push(await ask(user, 'unknown@example.com'));
  expect(answers[0]).toEqual(answers[1]);
  expect(await mailedTo(other.email)).toEqual(['invitation', 'email_taken']);
  expect((await auditOf(user)).map(([type]) => type)).toEqual(['email_change_requested', 'email_change_requested']);
  const { mails } = await fixture.auth.listMail({ kind: 'email_taken' }, operatorOf(fixture));
  expect(mails[0]!.mail!.text).not.toContain('token=');
  const { rows } = await asTableOwner(fixture, `select to_user_id from mails where kind = 'email_taken'`);
  expect(rows).toEqual([{ to_user_id: other.id }]);
});

test('of two users who confirm the same address at the same moment one gets it, and the other is told that it is taken', async () => {
  const one = await asking('first.come@example.com', 'wanted@example.com');
  clock.advance(60_000);
  const two = await asking('second.come@example.com', 'wanted@example.com');
  const outcomes: (ErrorReason | null)[] = [];
  // Whose answer arrives first is chance.
  await atOnce(
    fixture,
    [one, two].map(({ user, token }, index) => async () => {
      outcomes[index] = await reasonOf(confirm(user, token));
    }),
  );
  expect(outcomes).toEqual([null, ErrorReason.CONFLICT]);
  expect((await login('wanted@example.com')).tokens!.user!.id).toBe(one.user.id);
  expect((await login(two.user.email)).tokens!.user!.id).toBe(two.user.id);
});

test('an address for which somebody has accepted an invitation meanwhile is refused, and the former one stays', async () => {
  const { user, token } = await asking('late@example.com', 'invited.meanwhile@example.com');
  const joined = await join(fixture, 'invited.meanwhile@example.com');
  expect(await reasonOf(confirm(user, token))).toBe(ErrorReason.CONFLICT);
  expect((await login(user.email)).tokens!.user!.id).toBe(user.id);
  expect((await login(joined.email)).tokens!.user!.id).toBe(joined.id);
});

test("a pending invitation of one's own organization to the new address is withdrawn, and nobody is invited to a member's new address", async () => {
  const { user, token } = await asking('invited.twice@example.com', 'second.invitation@example.com');
  const invite = () => fixture.auth.createInvitation({ email: 'second.invitation@example.com' }, ownerOf(fixture));
  await invite();
  const invitation = await tokenMailedTo(fixture, 'second.invitation@example.com');
  await confirm(user, token);
  const accepted = fixture.auth.acceptInvitation({ token: invitation, password: strongPassword }, anonymous());
  expect(await reasonOf(accepted)).toBe(ErrorReason.INVALID_CODE);
  const refused = await invite().catch((error) => error);
  expect([refused.reason, refused.message]).toEqual([ErrorReason.CONFLICT, 'This person is already a member.']);
});

test('whoever has the former address of another user can join with it, though that user keeps their history', async () => {
  const { user, token } = await asking('passed.on@example.com', 'passed.on.new@example.com');
  await confirm(user, token);
  clock.advance(60_000);
  const successor = await join(fixture, 'passed.on@example.com');
  expect(successor.id).not.toBe(user.id);
});

test('a new address that a deactivated member had makes nobody invite them again: the active one is the member', async () => {
  const former = await join(fixture, 'shared.desk@example.com');
  await fixture.auth.updateMember({ userId: former.id, isActive: false }, ownerOf(fixture));
  const { user, token } = await asking('new.at.the.desk@example.com', 'shared.desk@example.com');
  await confirm(user, token);
  const refused = await fixture.auth
    .createInvitation({ email: 'shared.desk@example.com' }, ownerOf(fixture))
    .catch((error) => error);
  expect(refused.message).toBe('This person is already a member.');
  expect(await reasonOf(fixture.auth.updateMember({ userId: former.id, isActive: true }, ownerOf(fixture)))).toBe(
    ErrorReason.CONFLICT,
  );
});

test('a new address needs the password, whose guesses are slowed down as at a login', async () => {
  const user = await join(fixture, 'left.unlocked@example.com');
  const wrong = await ask(user, 'thief@example.com', 'wrong').catch((error) => error);
  expect([wrong.reason, wrong.details.param]).toEqual([ErrorReason.INVALID_REQUEST, 'current_password']);
  const guess = (nth: number) =>
    reasonOf(
      fixture.auth.requestEmailChange(
        { email: 'thief@example.com', currentPassword: `guess ${nth}` },
        as(user, `198.18.3.${nth}`),
      ),
    );
  const reasons: (ErrorReason | null)[] = [];
  for (let nth = 0; nth < 7; nth += 1) reasons.push(await guess(nth));
  expect(reasons.at(-1)).toBe(ErrorReason.RATE_LIMITED);
  expect(await mailedTo('thief@example.com')).toEqual([]);
  const own = await join(fixture, 'content@example.com');
  const same = await ask(own, 'Content@example.com').catch((error) => error);
  expect([same.reason, same.details.param]).toEqual([ErrorReason.INVALID_REQUEST, 'email']);
});

test('one user can ask for another address once a minute and five times an hour, and is told when to try again', async () => {
  const user = await join(fixture, 'restless@example.com');
  const askAgain = (nth: number) => ask(user, `restless.${nth}@example.com`).catch((error) => error);
  const startedMs = clock.now();
  for (let nth = 1; nth <= 5; nth += 1) {
    expect(await reasonOf(ask(user, `restless.${nth}@example.com`))).toBeNull();
    const { reason, details } = await askAgain(nth);
    expect(reason).toBe(ErrorReason.RATE_LIMITED);
    expect(details.retryAfterMs).toBe(nth < 5 ? 60_000 : startedMs + 3_600_000 - clock.now());
    clock.advance(60_000);
  }
  expect((await askAgain(6)).details.retryAfterMs).toBe(55 * 60_000);
  expect(await mailedTo('restless.6@example.com')).toEqual([]);
  // None of these count once the clock, which was ahead, is set right.
  clock.set(startedMs - 3_600_000);
  expect(await reasonOf(ask(user, 'restless.6@example.com'))).toBeNull();
  expect((await askAgain(7)).details.retryAfterMs).toBe(60_000);
  clock.set(startedMs + 5 * 60_000);
});

test("all users of an organization together ask for a stranger's address once a minute, and for addresses a hundred times an hour", async () => {
  const [one, two] = [
    await join(fixture, 'first.spammer@example.com'),
    await join(fixture, 'second.spammer@example.com'),
  ];
  await ask(one, 'victim@example.com');
  clock.advance(10_000);
  const refusal = (email: string) => ask(two, email).catch(({ reason, details }) => ({ reason, ...details }));
  expect(await refusal('Victim@example.com')).toMatchObject({
    reason: ErrorReason.RATE_LIMITED,
    param: 'email',
    retryAfterMs: 50_000,
  });
  expect(await mailedTo('victim@example.com')).toEqual(['email_change']);
  await asTableOwner(
    fixture,
    `insert into email_changes (token_hash, user_id, email, created_at, expires_at)
      select sha256(nth::text::bytea), $1, nth || '@example.com', $2, $2 from generate_series(1, 99) as nth`,
    [one.id, new Date(clock.now() - 600_000)],
  );
  const expected = { reason: ErrorReason.RATE_LIMITED, retryAfterMs: 3_000_000 };
  expect(await refusal('another@example.com')).toMatchObject(expected);
  clock.advance(3_000_000);
  expect(await reasonOf(ask(two, 'another@example.com'))).toBeNull();
});

test('how often an organization asked within the hour is known without reading what is older, or what others asked', async () => {
  const asker = await join(fixture, 'much.changed@example.com');
  const ask = (count: number, atMs: number) =>
    asTableOwner(
      fixture,
      `insert into email_changes (token_hash, user_id, email, created_at, expires_at)
        select sha256((nth || $3)::bytea), $1, nth || '.changed@example.com', $4, $4 from generate_series(1, $2) as nth`,
      [asker.id, count, ` at ${atMs}`, new Date(atMs)],
    );
  const since = new Date(clock.now() - 3_600_000);
  await ask(10_000, since.getTime());
  await ask(7, clock.now() - 3_599_000);
  await asTableOwner(fixture, 'analyze email_changes');
  const service = await openServiceDatabase({ service: 'auth', connection: fixture.database.url, entities, logger });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  const [latest, read] = await transaction(service, async (em) => {
    const asked = await latestEmailChangesOf(em, fixture.owner.tenantId, {
      since,
      until: new Date(clock.now()),
      limit: 100,
    });
    const [statistics] = await em.execute<{ rows: number }[]>(
      `select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'email_changes'`,
    );
    return [asked, statistics!.rows];
  });
  expect(latest.filter(({ email }) => email.endsWith('.changed@example.com'))).toHaveLength(7);
  expect(read).toBeLessThan(200);
});

test('an operator gives a user another address without a mail to answer: both are told, and a reset by mail verifies it', async () => {
  const user = await join(fixture, 'lost.mailbox@example.com');
  const { tokens } = await login(user.email);
  const { user: changed } = await setByOperator(user.id, 'Found.Mailbox@example.com');
  expect(changed).toMatchObject({ email: 'found.mailbox@example.com', emailVerified: false, isActive: true });
  expect(await reasonOf(login(user.email))).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(await reasonOf(fixture.auth.refresh({ refreshToken: tokens!.refreshToken }, anonymous()))).toBeNull();
  expect(await mailedTo(user.email)).toEqual(['invitation', 'email_changed']);
  expect(await mailedTo('found.mailbox@example.com')).toEqual(['email_changed']);
  expect(await auditOf(user)).toEqual([
    ['user_updated', `{"email":"${user.email}"}`, '{"email":"found.mailbox@example.com"}'],
  ]);
  await fixture.auth.forgotPassword({ email: 'found.mailbox@example.com' }, anonymous());
  const token = await tokenMailedTo(fixture, 'found.mailbox@example.com');
  await fixture.auth.resetPassword({ token, newPassword: strongPassword }, anonymous());
  expect((await login('found.mailbox@example.com')).tokens!.user!.emailVerified).toBe(true);
});

test('an operator gives nobody an address that another active user has, and reactivates somebody with a free one', async () => {
  const [one, two] = [await join(fixture, 'one@example.com'), await join(fixture, 'two@example.com')];
  expect(await reasonOf(setByOperator(one.id, 'TWO@example.com'))).toBe(ErrorReason.CONFLICT);
  expect((await login(one.email)).tokens!.user!.id).toBe(one.id);
  const deactivate = { userId: two.id, isActive: false };
  await fixture.auth.adminUpdateUser(deactivate, operatorOf(fixture));
  await setByOperator(one.id, 'two@example.com');
  const reactivate = { userId: two.id, isActive: true, email: 'two.again@example.com' };
  await fixture.auth.adminUpdateUser(reactivate, operatorOf(fixture));
  expect((await login('two.again@example.com')).tokens!.user!.id).toBe(two.id);
});
