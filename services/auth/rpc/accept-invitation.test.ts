import { afterAll, beforeAll, expect, test } from 'vitest';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, session, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import {
  asTableOwner,
  atOnce,
  join,
  operatorOf,
  ownerOf,
  reasonOf,
  strongPassword,
  tokenMailedTo,
} from '../../../test/support/people.ts';

let fixture: TestAuth;
const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
beforeAll(async () => {
  fixture = await startTestAuth({ clock });
});
afterAll(() => fixture.close());

const accept = (token: string, fields: object = {}) =>
  fixture.auth.acceptInvitation(
    { token, password: strongPassword, firstName: 'A', lastName: 'B', ...fields },
    anonymous(),
  );
/** After this time an address may be sent another invitation. */
const waitToInviteAgain = () => clock.advance(60_000);

test('an accepted invitation creates a user of the organization, who signs in with the invited address', async () => {
  await fixture.auth.createInvitation({ email: 'New.Person@Example.com', role: Role.ADMIN }, ownerOf(fixture));
  const { user, organizationName } = await accept(await tokenMailedTo(fixture, 'new.person@example.com'));
  expect(user).toMatchObject({
    email: 'new.person@example.com',
    tenantId: fixture.owner.tenantId,
    role: Role.ADMIN,
    emailVerified: true,
  });
  expect(organizationName).toBe('First');
  const { tokens } = await fixture.auth.login({ email: user!.email, password: strongPassword }, anonymous());
  expect(tokens?.user?.id).toBe(user!.id);
});

test('whoever holds the token of an invitation is told to what, as whom and until when', async () => {
  const { auth } = fixture;
  const email = 'curious@example.com';
  const read = async () => auth.getInvitation({ token: await tokenMailedTo(fixture, email) }, anonymous());
  const { invitation } = await auth.createInvitation({ email, role: Role.ADMIN }, ownerOf(fixture));
  expect(await read()).toMatchObject({ invitation, organizationName: 'First' });
  waitToInviteAgain();
  await auth.adminCreateOrganization({ ownerEmail: email }, operatorOf(fixture));
  const founder = { email, role: Role.OWNER, tenantId: '' };
  expect(await read()).toMatchObject({ invitation: founder, organizationName: '' });
});

test('of a hundred who accept one invitation at once, exactly one succeeds', async () => {
  await fixture.auth.createInvitation({ email: 'race@example.com' }, ownerOf(fixture));
  const token = await tokenMailedTo(fixture, 'race@example.com');
  const results = await Promise.allSettled(Array.from({ length: 100 }, () => accept(token)));
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.reason] : []));
  // The queue of hashes is limited, and so are the connections to the database; those who did not fit in were told to come back.
  const told = [
    ErrorReason.INVALID_CODE,
    ErrorReason.RATE_LIMITED,
    ErrorReason.OVERLOADED,
    ErrorReason.DEADLINE_EXCEEDED,
  ];
  expect(reasons.filter((reason) => !told.includes(reason))).toEqual([]);
  const { members } = await fixture.auth.listMembers({ search: 'race@' }, ownerOf(fixture));
  expect(members).toHaveLength(1);
});

test('a password of eight characters with one of each class is enough', async () => {
  const email = 'brief@example.com';
  await fixture.auth.createInvitation({ email }, ownerOf(fixture));
  await accept(await tokenMailedTo(fixture, email), { password: 'abcde1-A' });
  const { tokens } = await fixture.auth.login({ email, password: 'abcde1-A' }, anonymous());
  expect(tokens?.user?.email).toBe(email);
});

test.each([
  ['of seven characters', 'Abcde1-'],
  ['without an upper-case letter', 'password-1'],
  ['without a lower-case letter', 'PASSWORD-1'],
  ['without a digit', 'Password-x'],
  ['without a special character', 'Password11'],
  ['with a space for a special character', 'Password 11'],
  ['of 7 characters, one of which takes two UTF-16 units', 'Pass1-😀'],
])('a password %s is refused, and the invitation remains', async (_name, password) => {
  const email = 'weak@example.com';
  waitToInviteAgain();
  await fixture.auth.createInvitation({ email }, ownerOf(fixture));
  const token = await tokenMailedTo(fixture, email);
  const error = await accept(token, { password }).catch((caught) => caught);
  expect([error.reason, error.details.param]).toEqual([ErrorReason.INVALID_REQUEST, 'password']);
  const { invitations } = await fixture.auth.listInvitations({ status: InvitationStatus.PENDING }, ownerOf(fixture));
  expect(invitations.map((invitation) => invitation.email)).toContain(email);
});

test('an invented, replayed, withdrawn, superseded or expired token is refused, always in the same way', async () => {
  const email = 'dead@example.com';
  const invited = async () => {
    waitToInviteAgain();
    const { invitation } = await fixture.auth.createInvitation({ email }, ownerOf(fixture));
    return { id: invitation!.id, token: await tokenMailedTo(fixture, email) };
  };
  const superseded = await invited();
  const withdrawn = await invited();
  await fixture.auth.deleteInvitation({ invitationId: withdrawn.id }, ownerOf(fixture));
  const expired = await invited();
  clock.advance(7 * 86_400_000);
  const replayed = await invited();
  await accept(replayed.token);
  for (const token of ['invented', superseded.token, withdrawn.token, expired.token, replayed.token]) {
    expect(await reasonOf(accept(token))).toBe(ErrorReason.INVALID_CODE);
    expect(await reasonOf(fixture.auth.getInvitation({ token }, anonymous()))).toBe(ErrorReason.INVALID_CODE);
  }
});

test('whoever withdraws an invitation that was accepted is told so, and nobody else, since only then somebody is in', async () => {
  const email = 'quicker@example.com';
  const withdraw = (invitationId: string) => fixture.auth.deleteInvitation({ invitationId }, ownerOf(fixture));
  waitToInviteAgain();
  const { invitation: first } = await fixture.auth.createInvitation({ email }, ownerOf(fixture));
  for (let time = 0; time < 2; time++) await withdraw(first!.id);
  waitToInviteAgain();
  const { invitation: second } = await fixture.auth.createInvitation({ email }, ownerOf(fixture));
  await accept(await tokenMailedTo(fixture, email));
  expect(await reasonOf(withdraw(second!.id))).toBe(ErrorReason.CONFLICT);
});

test('of simultaneous invitations to one address only one is made, with an organization or without, and none from before is left', async () => {
  const email = 'often@example.com';
  const fiveTimes = async (call: () => Promise<unknown>) => {
    const reasons: (ErrorReason | null)[] = [];
    const once = async () => reasons.push(await reasonOf(call()));
    await atOnce(fixture, [once, once, once, once, once]);
    return reasons.toSorted();
  };
  const { RATE_LIMITED } = ErrorReason;
  const one = [RATE_LIMITED, RATE_LIMITED, RATE_LIMITED, RATE_LIMITED, null];
  const found = (name: string) =>
    fixture.auth.adminCreateOrganization({ ownerEmail: email, name }, operatorOf(fixture));
  for (const round of [1, 2]) {
    waitToInviteAgain();
    const invited = await fiveTimes(() => fixture.auth.createInvitation({ email }, ownerOf(fixture)));
    waitToInviteAgain();
    const asked = await fiveTimes(() => found(''));
    expect([round, invited, asked]).toEqual([round, one, one]);
  }
  waitToInviteAgain();
  expect(await fiveTimes(() => found('Often'))).toEqual(one);
  const { rows } = await asTableOwner(
    fixture,
    `select coalesce(name, 'none') as name from invitations left join organizations on organizations.id = tenant_id
     where email = $1 and withdrawn_at is null`,
    [email],
  );
  expect(rows.map(({ name }) => name).toSorted()).toEqual(['First', 'Often', 'none']);
});

test('someone who accepts an invitation while another is made is not left with the other one', async () => {
  const { auth } = fixture;
  const email = 'twice@example.com';
  const found = (name: string) => () => auth.adminCreateOrganization({ ownerEmail: email, name }, operatorOf(fixture));
  await found('')();
  const token = await tokenMailedTo(fixture, email);
  waitToInviteAgain();
  const reasons: (ErrorReason | null)[] = [];
  const further = (call: () => Promise<unknown>) => async () => reasons.push(await reasonOf(call()));
  const accepted = () => accept(token, { organizationName: 'Of the first' });
  await atOnce(fixture, [accepted, further(found('')), further(found('Of a further one'))]);

  const colleague = 'colleague@example.com';
  const invited = () => auth.createInvitation({ email: colleague }, ownerOf(fixture));
  await invited();
  const colleaguesToken = await tokenMailedTo(fixture, colleague);
  waitToInviteAgain();
  await atOnce(fixture, [() => accept(colleaguesToken), further(invited)]);
  expect(reasons).toEqual([ErrorReason.CONFLICT, ErrorReason.CONFLICT, ErrorReason.CONFLICT]);
  const pending = 'select from invitations where email = any($1) and accepted_at is null';
  expect((await asTableOwner(fixture, pending, [[email, colleague]])).rowCount).toBe(0);
});

test('an owner who is invited without an organization names it', async () => {
  const email = 'founder@example.com';
  await fixture.auth.adminCreateOrganization({ ownerEmail: email }, operatorOf(fixture));
  const token = await tokenMailedTo(fixture, email);
  for (const name of ['', ' 🏭 ']) {
    const unnamed = await accept(token, { organizationName: name }).catch((error) => error);
    expect(unnamed.details.param).toBe('organization_name');
  }
  const founded = '🏭'.repeat(255);
  const { user, organizationName } = await accept(token, { organizationName: founded });
  expect(organizationName).toBe(founded);
  expect(user!.role).toBe(Role.OWNER);
  expect(user!.tenantId).not.toBe(fixture.owner.tenantId);
});

test("nothing in an organization's name becomes a link in an invitation, and its letters stay", async () => {
  const mailFrom = async (name: string, ownerEmail: string) => {
    await fixture.auth.adminCreateOrganization({ name, ownerEmail }, operatorOf(fixture));
    return (await fixture.auth.listMail({ search: ownerEmail }, operatorOf(fixture))).mails[0]!.mail!;
  };
  const bait = 'Acme: sign in at https://evil.example/x, www.evil.example or me@evil.example';
  const { subject, text, html } = await mailFrom(bait, 'baited@example.com');
  for (const part of [subject, text, html]) {
    expect(part).not.toMatch(/https?:\/\/evil|\w\.evil|@evil|evil\.example/);
    expect(part.replaceAll('\u2060', '')).toContain(bait);
  }
  for (const [index, name] of ['J. P. Nobel & Co.', 'شرکت علی\u200cرضا', 'We 👩\u200d👩\u200d👧'].entries())
    expect((await mailFrom(name, `plain-${index}@example.com`)).subject).toContain(` ${name} `);
});

test('someone with an account elsewhere can be invited, and is told how to move, with the same invitation', async () => {
  const email = 'taken@example.com';
  await fixture.auth.adminCreateOrganization({ name: 'Other', ownerEmail: email }, operatorOf(fixture));
  const { user } = await accept(await tokenMailedTo(fixture, email));
  await fixture.auth.createInvitation({ email }, ownerOf(fixture));
  const token = await tokenMailedTo(fixture, email);
  const refusal = await accept(token).catch((error) => error);
  expect(refusal.reason).toBe(ErrorReason.CONFLICT);
  expect(refusal.message).toContain('deactivate it, and then accept this invitation again');
  await fixture.auth.adminUpdateUser({ userId: user!.id, isActive: false }, operatorOf(fixture));
  expect((await accept(token)).user).toMatchObject({ email, tenantId: fixture.owner.tenantId });
});

test('someone removed from one organization may join another, and can return to the first only after leaving it', async () => {
  const { auth } = fixture;
  const email = 'mover@example.com';
  const former = await join(fixture, email);
  const setActive = (userId: string, isActive: boolean) => auth.updateMember({ userId, isActive }, ownerOf(fixture));
  await setActive(former.id, false);
  waitToInviteAgain();
  expect(await reasonOf(auth.createInvitation({ email }, ownerOf(fixture)))).toBe(ErrorReason.CONFLICT);
  await auth.adminCreateOrganization({ name: 'Next', ownerEmail: email }, operatorOf(fixture));
  const { user } = await accept(await tokenMailedTo(fixture, email), { password: 'An0ther-password' });
  const login = (password: string) => auth.login({ email, password }, anonymous());
  expect((await login('An0ther-password')).tokens?.user).toMatchObject({ id: user!.id, tenantId: user!.tenantId });
  expect(await reasonOf(login(strongPassword))).toBe(ErrorReason.INVALID_CREDENTIALS);
  expect(await reasonOf(setActive(former.id, true))).toBe(ErrorReason.CONFLICT);
  const again = auth.adminUpdateUser({ userId: former.id, isActive: true }, operatorOf(fixture));
  expect(await reasonOf(again)).toBe(ErrorReason.CONFLICT);

  await auth.adminUpdateUser({ userId: user!.id, isActive: false }, operatorOf(fixture));
  await setActive(former.id, true);
  expect((await login(strongPassword)).tokens?.user?.id).toBe(former.id);
});

test('only an owner invites owners, and members invite nobody', async () => {
  const admin = await join(fixture, 'inviting-admin@example.com', Role.ADMIN);
  const member = await join(fixture, 'inviting-member@example.com');
  const invite = (user: typeof admin, role: Role) =>
    fixture.auth.createInvitation(
      { email: 'x@example.com', role },
      session({ userId: user.id, tenantId: user.tenantId, role: user.role }),
    );
  expect(await reasonOf(invite(admin, Role.OWNER))).toBe(ErrorReason.INSUFFICIENT_ROLE);
  expect(await reasonOf(invite(admin, Role.ADMIN))).toBe(null);
  expect(await reasonOf(invite(member, Role.MEMBER))).toBe(ErrorReason.INSUFFICIENT_ROLE);
});

test('a repeated Idempotency-Key returns the first invitation; with another body it is refused', async () => {
  const invite = (email: string) =>
    fixture.auth.createInvitation({ email, idempotencyKey: 'same-key' }, ownerOf(fixture));
  const [first, second] = await Promise.all([invite('once@example.com'), invite('once@example.com')]);
  expect(second.invitation!.id).toBe(first.invitation!.id);
  expect(await reasonOf(invite('twice@example.com'))).toBe(ErrorReason.IDEMPOTENCY_KEY_REUSED);
});
