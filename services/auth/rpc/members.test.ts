import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, ownerEmail, session, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import {
  as,
  atOnce,
  join,
  operatorOf,
  ownerOf,
  type Person,
  reasonOf,
  strongPassword,
  tokenMailedTo,
} from '../../../test/support/people.ts';

let fixture: TestAuth;
beforeAll(async () => {
  fixture = await startTestAuth();
});
afterAll(() => fixture.close());

const lastRefresh = () => fixture.refreshes.at(-1);

const removals: readonly [by: string, remove: (userId: string) => Promise<unknown>][] = [
  ['an owner', (userId) => fixture.auth.updateMember({ userId, isActive: false }, ownerOf(fixture))],
  ['an operator', (userId) => fixture.auth.adminUpdateUser({ userId, isActive: false }, operatorOf(fixture))],
];

test.each(removals)(
  'somebody whom %s deactivates can neither sign in, refresh nor reset their password, and Keys knows',
  async (by, remove) => {
    const { auth } = fixture;
    const user = await join(fixture, `leaver-of-${by.replace(' ', '-')}@example.com`);
    const { tokens } = await auth.login({ email: user.email, password: strongPassword }, anonymous());
    await auth.forgotPassword({ email: user.email }, anonymous());
    const token = await tokenMailedTo(fixture, user.email);
    await remove(user.id);
    expect(lastRefresh()?.users).toMatchObject([{ userId: user.id, tenantId: user.tenantId, isActive: false }]);
    expect(await reasonOf(auth.refresh({ refreshToken: tokens!.refreshToken }, anonymous()))).toBe(
      ErrorReason.INVALID_TOKEN,
    );
    expect(await reasonOf(auth.login({ email: user.email, password: strongPassword }, anonymous()))).toBe(
      ErrorReason.INVALID_CREDENTIALS,
    );
    expect(await reasonOf(auth.resetPassword({ token, newPassword: strongPassword }, anonymous()))).toBe(
      ErrorReason.INVALID_CODE,
    );
    await auth.updateMember({ userId: user.id, isActive: true }, ownerOf(fixture));
    // Their earlier sessions do not return with them.
    expect(await reasonOf(auth.refresh({ refreshToken: tokens!.refreshToken }, anonymous()))).toBe(
      ErrorReason.INVALID_TOKEN,
    );
    expect(await reasonOf(auth.login({ email: user.email, password: strongPassword }, anonymous()))).toBe(null);
  },
);

test('the last owner stays, even when two owners step down at the same moment', async () => {
  const { auth, owner } = fixture;
  const first = { id: owner.userId, tenantId: owner.tenantId, role: Role.OWNER };
  const demote = (actor: Person, userId: string) => auth.updateMember({ userId, role: Role.MEMBER }, as(actor));
  expect(await reasonOf(demote(first, first.id))).toBe(ErrorReason.CONFLICT);
  expect(await reasonOf(auth.updateMember({ userId: first.id, isActive: false }, as(first)))).toBe(
    ErrorReason.CONFLICT,
  );
  const second = await join(fixture, 'second-owner@example.com', Role.OWNER);
  const reasons = await Promise.all([first, second].map((one) => reasonOf(demote(one, one.id))));
  expect(reasons.toSorted()).toEqual([ErrorReason.CONFLICT, null].toSorted());
  const { members } = await auth.listMembers({ page: { limit: 100 } }, as(first));
  const owners = members.filter((member) => member.role === Role.OWNER);
  expect(owners).toHaveLength(1);
  // Restored for the other tests.
  const survivor = owners[0]!;
  await auth.updateMember({ userId: first.id, role: Role.OWNER }, as(survivor));
});

test('nobody returns by their own invitation after being removed, or invites above a role they have lost', async () => {
  const { auth } = fixture;
  const admin = await join(fixture, 'inviting-admin@example.com', Role.ADMIN);
  const owner = await join(fixture, 'inviting-owner@example.com', Role.OWNER);
  await auth.createInvitation({ email: 'alias@example.com', role: Role.ADMIN }, as(admin));
  await auth.createInvitation({ email: 'heir@example.com', role: Role.OWNER }, as(owner));
  await auth.createInvitation({ email: 'colleague@example.com', role: Role.MEMBER }, as(owner));
  const invited = ['alias@example.com', 'heir@example.com', 'colleague@example.com'];
  const tokens = await Promise.all(invited.map((email) => tokenMailedTo(fixture, email)));
  await auth.adminUpdateUser({ userId: admin.id, isActive: false }, operatorOf(fixture));
  await auth.updateMember({ userId: owner.id, role: Role.ADMIN }, ownerOf(fixture));
  const accepted: unknown[] = [];
  for (const token of tokens) {
    accepted.push(await reasonOf(auth.acceptInvitation({ token, password: strongPassword }, anonymous())));
  }
  expect(accepted).toEqual([ErrorReason.INVALID_CODE, ErrorReason.INVALID_CODE, null]);
});

test.each<[end: string, change: (auth: TestAuth['auth'], userId: string) => Promise<unknown>]>([
  ['demoted', (auth, userId) => auth.adminUpdateUser({ userId, operator: false }, operatorOf(fixture))],
  ['removed', (auth, userId) => auth.updateMember({ userId, isActive: false }, ownerOf(fixture))],
])('an operator who is %s returns by no invitation of theirs, nor by one under way', async (end, change) => {
  const { auth } = fixture;
  const { id: userId, tenantId } = await join(fixture, `operator-to-be-${end}@example.com`);
  await auth.adminUpdateUser({ userId, operator: true }, operatorOf(fixture));
  const asOperator = session({ userId, tenantId, role: Role.MEMBER, operator: true });
  const address = (where: string) => `${where}by-operator-${end}@example.com`;
  const create = (where: string) =>
    auth.adminCreateOrganization({ name: where, ownerEmail: address(where) }, asOperator);
  const elsewhere = (
    await auth.adminCreateOrganization({ name: end, ownerEmail: address('owner') }, operatorOf(fixture))
  ).organization!.id;
  const invite = (to: string, where: string) =>
    auth.adminCreateInvitation({ tenantId: to, email: address(where), role: Role.OWNER }, asOperator);
  await invite(tenantId, 'at-home');
  await invite(elsewhere, 'elsewhere');
  await create('');
  const accept = async (token: string, organizationName = 'Anew') =>
    reasonOf(auth.acceptInvitation({ token, organizationName, password: strongPassword }, anonymous()));
  const mailed = ['at-home', 'elsewhere', ''].map((where) => tokenMailedTo(fixture, address(where)));
  const tokens = await Promise.all(mailed);
  // They are still an operator.
  await auth.adminUpdateUser({ userId, email: address('renamed') }, operatorOf(fixture));
  for (const token of tokens) expect(await reasonOf(auth.getInvitation({ token }, anonymous()))).toBe(null);

  const underWay: unknown[] = [];
  const note = (call: Promise<unknown>) => async () => underWay.push(await reasonOf(call));
  await atOnce(fixture, [
    () => change(auth, userId),
    async () => note(invite(elsewhere, 'late'))(),
    async () => note(create('later'))(),
  ]);
  expect(underWay).toEqual([ErrorReason.INSUFFICIENT_ROLE, ErrorReason.INSUFFICIENT_ROLE]);
  const accepted = await Promise.all(tokens.map((token) => accept(token)));
  expect(accepted).toEqual(tokens.map(() => ErrorReason.INVALID_CODE));
  // Whoever removed them is unknown elsewhere.
  const filter = { type: 'invitation_withdrawn' };
  const { events } = await auth.adminListAuditEvents({ tenantId: elsewhere, filter }, operatorOf(fixture));
  expect(events.map(({ record }) => record!.actor)).toMatchObject([
    { type: AuditActorType.SYSTEM, id: 'auth', ip: '' },
  ]);
});

test('nothing that a removed member had in progress takes effect', async () => {
  const { auth } = fixture;
  const admin = await join(fixture, 'removed-admin@example.com', Role.ADMIN);
  const operator = await join(fixture, 'removed-operator@example.com', Role.ADMIN);
  await auth.adminUpdateUser({ userId: operator.id, operator: true }, operatorOf(fixture));
  const asRemoved = session({ userId: operator.id, tenantId: operator.tenantId, role: Role.ADMIN, operator: true });
  const remove = (user: Person) => () => auth.updateMember({ userId: user.id, isActive: false }, ownerOf(fixture));
  const refused: unknown[] = [];
  const underWay = (call: () => Promise<unknown>) => async () => refused.push(await reasonOf(call()));
  const auditHeads = 'select from audit_heads for update';
  const early = { email: 'invited-early@example.com' };
  const calls = [
    () => auth.createInvitation(early, as(admin)),
    remove(admin),
    underWay(() => auth.updateMember({ userId: admin.id, isActive: true }, as(admin))),
    underWay(() => auth.createInvitation({ email: 'invited-late@example.com' }, as(admin))),
  ];
  await atOnce(fixture, calls, auditHeads);
  const again = underWay(() => auth.adminUpdateUser({ userId: operator.id, isActive: true }, asRemoved));
  await atOnce(fixture, [remove(operator), again], auditHeads);
  expect(refused).toEqual([
    ErrorReason.INSUFFICIENT_ROLE,
    ErrorReason.INSUFFICIENT_ROLE,
    ErrorReason.INSUFFICIENT_ROLE,
  ]);
  const { members } = await auth.listMembers({ search: 'removed-' }, ownerOf(fixture));
  expect(members.map(({ isActive }) => isActive)).toEqual([false, false]);
  const { invitations } = await auth.listInvitations({ page: { limit: 100 } }, ownerOf(fixture));
  const invited = invitations.filter(({ email }) => email.startsWith('invited-'));
  expect(invited).toMatchObject([{ ...early, status: InvitationStatus.WITHDRAWN }]);
});

test.each<[lost: string, change: (auth: TestAuth['auth'], user: Person) => Promise<unknown>]>([
  ['demoted', (auth, { id }) => auth.updateMember({ userId: id, role: Role.MEMBER }, ownerOf(fixture))],
  [
    'removed by an operator',
    (auth, { id }) => auth.adminUpdateUser({ userId: id, isActive: false }, operatorOf(fixture)),
  ],
])('someone who is %s at the same moment withdraws no invitation and renames nothing', async (lost, change) => {
  const { auth } = fixture;
  const admin = await join(fixture, `admin-${lost.replaceAll(' ', '-')}@example.com`, Role.ADMIN);
  const email = `wanted-${admin.id}@example.com`;
  const { invitation } = await auth.createInvitation({ email }, ownerOf(fixture));
  const before = await auth.getOrganization({}, ownerOf(fixture));
  const refused: unknown[] = [];
  const underWay = (call: () => Promise<unknown>) => async () => refused.push(await reasonOf(call()));
  await atOnce(fixture, [
    () => change(auth, admin),
    underWay(() => auth.deleteInvitation({ invitationId: invitation!.id }, as(admin))),
    underWay(() => auth.updateOrganization({ name: `By who is ${lost}` }, as(admin))),
  ]);
  expect(refused).toEqual([ErrorReason.INSUFFICIENT_ROLE, ErrorReason.INSUFFICIENT_ROLE]);
  const { invitations } = await auth.listInvitations({ page: { limit: 100 } }, ownerOf(fixture));
  expect(invitations.find(({ id }) => id === invitation!.id)).toMatchObject({ status: InvitationStatus.PENDING });
  expect((await auth.getOrganization({}, ownerOf(fixture))).organization!.name).toBe(before.organization!.name);
});

test('someone who stops being an operator at the same moment withdraws no invitation and renames nothing', async () => {
  const { auth } = fixture;
  const operator = await join(fixture, 'unmade-operator@example.com');
  await auth.adminUpdateUser({ userId: operator.id, operator: true }, operatorOf(fixture));
  const unmade = session({ userId: operator.id, tenantId: operator.tenantId, role: Role.MEMBER, operator: true });
  const { tenantId } = operator;
  const { invitation } = await auth.createInvitation({ email: 'wanted-by-all@example.com' }, ownerOf(fixture));
  const refused: unknown[] = [];
  const underWay = (call: () => Promise<unknown>) => async () => refused.push(await reasonOf(call()));
  await atOnce(fixture, [
    () => auth.adminUpdateUser({ userId: operator.id, operator: false }, operatorOf(fixture)),
    underWay(() => auth.adminDeleteInvitation({ tenantId, invitationId: invitation!.id }, unmade)),
    underWay(() => auth.adminUpdateOrganization({ tenantId, name: 'By who was unmade' }, unmade)),
  ]);
  expect(refused).toEqual([ErrorReason.INSUFFICIENT_ROLE, ErrorReason.INSUFFICIENT_ROLE]);
});

test('an admin manages members but not owners, a member manages nobody, and nobody manages another organization', async () => {
  const { auth, owner } = fixture;
  const admin = await join(fixture, 'admin@example.com', Role.ADMIN);
  const member = await join(fixture, 'member@example.com');
  expect(await reasonOf(auth.updateMember({ userId: owner.userId, role: Role.MEMBER }, as(admin)))).toBe(
    ErrorReason.INSUFFICIENT_ROLE,
  );
  expect(await reasonOf(auth.updateMember({ userId: admin.id, role: Role.OWNER }, as(admin)))).toBe(
    ErrorReason.INSUFFICIENT_ROLE,
  );
  expect(await reasonOf(auth.updateMember({ userId: member.id, role: Role.ADMIN }, as(admin)))).toBe(null);
  expect(await reasonOf(auth.listMembers({}, as({ ...member, role: Role.MEMBER })))).toBe(
    ErrorReason.INSUFFICIENT_ROLE,
  );

  const email = 'stranger@example.com';
  await auth.adminCreateOrganization({ name: 'Strangers', ownerEmail: email }, operatorOf(fixture));
  const { user: stranger } = await auth.acceptInvitation(
    { token: await tokenMailedTo(fixture, email), password: strongPassword },
    anonymous(),
  );
  expect(await reasonOf(auth.updateMember({ userId: member.id, isActive: false }, as(stranger!)))).toBe(
    ErrorReason.NOT_FOUND,
  );
});

test('a member never learns who operates the platform', async () => {
  const { members } = await fixture.auth.listMembers({ page: { limit: 100 } }, ownerOf(fixture));
  expect(members.map((member) => member.email)).toContain(ownerEmail);
  expect(members.every((member) => !member.operator)).toBe(true);
});

test('the last operator stays', async () => {
  const { auth, owner } = fixture;
  for (const change of [{ operator: false }, { isActive: false }]) {
    expect(await reasonOf(auth.adminUpdateUser({ userId: owner.userId, ...change }, operatorOf(fixture)))).toBe(
      ErrorReason.CONFLICT,
    );
  }
  const other = await join(fixture, 'co-owner@example.com', Role.OWNER);
  expect(await reasonOf(auth.updateMember({ userId: owner.userId, isActive: false }, as(other)))).toBe(
    ErrorReason.CONFLICT,
  );
  // Restored for the other tests.
  await auth.updateMember({ userId: other.id, role: Role.MEMBER }, as(other));
});

test('of two operators whose organizations remove them at the same moment, one stays', async () => {
  await using own = await startTestAuth();
  const { auth, owner } = own;
  const email = 'other-operator@example.com';
  await auth.adminCreateOrganization({ name: 'Others', ownerEmail: email }, operatorOf(own));
  const accept = async (to: string) =>
    (await auth.acceptInvitation({ token: await tokenMailedTo(own, to), password: strongPassword }, anonymous())).user!;
  const operator = await accept(email);
  await auth.adminUpdateUser({ userId: operator.id, operator: true }, operatorOf(own));
  await auth.createInvitation({ email: 'other-owner@example.com', role: Role.OWNER }, as(operator));
  const [one, other] = [await join(own, 'co-owner@example.com', Role.OWNER), await accept('other-owner@example.com')];
  const reasons: unknown[] = [];
  const remove = (actor: Person, userId: string) => async () =>
    reasons.push(await reasonOf(auth.updateMember({ userId, isActive: false }, as(actor))));
  await atOnce(own, [remove(one, owner.userId), remove(other, operator.id)]);
  expect(reasons.toSorted()).toEqual([ErrorReason.CONFLICT, null].toSorted());
});

test('someone who is not an operator is refused by the service itself, whatever the edge let through', async () => {
  const { auth, owner } = fixture;
  const { tenantId } = owner;
  const calls = [
    auth.adminListOrganizations({}, ownerOf(fixture)),
    auth.adminGetOrganization({ tenantId }, ownerOf(fixture)),
    auth.adminUpdateOrganization({ tenantId, name: 'Mine' }, ownerOf(fixture)),
    auth.adminCreateOrganization({ ownerEmail: 'a@example.com' }, ownerOf(fixture)),
    auth.adminListInvitations({ tenantId }, ownerOf(fixture)),
    auth.adminCreateInvitation({ tenantId, email: 'a@example.com' }, ownerOf(fixture)),
    auth.adminDeleteInvitation({ tenantId, invitationId: tenantId }, ownerOf(fixture)),
    auth.suspendOrganization({ tenantId }, ownerOf(fixture)),
    auth.restoreOrganization({ tenantId }, ownerOf(fixture)),
    auth.adminListUsers({}, ownerOf(fixture)),
    auth.adminUpdateUser({ userId: owner.userId, operator: true }, ownerOf(fixture)),
    auth.adminListAuditEvents({}, ownerOf(fixture)),
    auth.verifyAuditChain({}, ownerOf(fixture)),
    auth.listMail({}, ownerOf(fixture)),
    auth.rotateSigningKey({}, ownerOf(fixture)),
  ];
  for (const call of calls) expect(await reasonOf(call)).toBe(ErrorReason.INSUFFICIENT_ROLE);
});

test('wildcards in a search stand for themselves', async () => {
  const { members } = await fixture.auth.listMembers({ search: '%_'.repeat(100) }, ownerOf(fixture));
  expect(members).toEqual([]);
});

test('operators look up many people by their ids at once, of any organization, and narrow them further', async () => {
  const { auth, owner } = fixture;
  const { id } = await join(fixture, 'one-of-many@example.com');
  const find = async (request: { tenantId?: string; search?: string }) =>
    (await auth.adminListUsers({ userIds: [id, owner.userId, uuidv7()], ...request }, operatorOf(fixture))).users;
  expect((await find({})).map((user) => user.id).toSorted()).toEqual([id, owner.userId].toSorted());
  expect(await find({ search: 'one-of-many' })).toMatchObject([{ id }]);
  expect(await find({ tenantId: uuidv7() })).toEqual([]);
});

test('people can be found by their full name as shown, however its letters are composed, and by their id', async () => {
  const { auth } = fixture;
  const { id, tenantId } = await join(fixture, 'found@example.com');
  await auth.updateProfile({ firstName: ' Zoe\u0308', lastName: 'Lovelace' }, as({ id, tenantId, role: Role.MEMBER }));
  for (const search of ['zo\u00eb love', 'zoe\u0308 love', id, id.toUpperCase()]) {
    const { members } = await auth.listMembers({ search }, ownerOf(fixture));
    const { users } = await auth.adminListUsers({ search }, operatorOf(fixture));
    expect([...members, ...users]).toMatchObject([{ id }, { id }]);
  }
});

test('operators find an organization by its id, as logs have it', async () => {
  const { auth, owner } = fixture;
  const { organizations } = await auth.adminListOrganizations({ search: owner.tenantId }, operatorOf(fixture));
  expect(organizations).toMatchObject([{ id: owner.tenantId }]);
});

test('operators list certain organizations in the order in which they name them, and narrow them further', async () => {
  const { auth, owner } = fixture;
  const create = async (name: string): Promise<string> => {
    const request = { name, ownerEmail: `owner-of-${name}@example.com` };
    return (await auth.adminCreateOrganization(request, operatorOf(fixture))).organization!.id;
  };
  const [first, second] = [await create('named-one'), await create('named-two')];
  await create('other');
  const find = async (request: { search?: string; page?: { page: number; limit: number } }) => {
    const tenantIds = [second, owner.tenantId, uuidv7(), first];
    const { organizations, page } = await auth.adminListOrganizations({ tenantIds, ...request }, operatorOf(fixture));
    return [organizations.map(({ id }) => id), Number(page!.total)];
  };
  expect(await find({})).toEqual([[second, owner.tenantId, first], 3]);
  expect(await find({ page: { page: 2, limit: 2 } })).toEqual([[first], 3]);
  expect(await find({ search: 'named-' })).toEqual([[second, first], 2]);
});
