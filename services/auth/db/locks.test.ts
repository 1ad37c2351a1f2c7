import { expect, test } from 'vitest';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { as, atOnce, join, operatorOf, ownerOf, strongPassword, tokenMailedTo } from '../../../test/support/people.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

/** An admin, and the token of someone they have invited. */
async function invitedByAdmin(fixture: TestAuth) {
  const admin = await join(fixture, 'admin@example.com', Role.ADMIN);
  await fixture.auth.createInvitation({ email: 'invited@example.com' }, as(admin));
  return { admin, token: await tokenMailedTo(fixture, 'invited@example.com') };
}

const auditHeads = 'select from audit_heads for update';

async function sessionsOf(fixture: TestAuth, email: string) {
  const logins = [1, 2, 3, 4].map(() => fixture.auth.login({ email, password: strongPassword }, anonymous()));
  return (await Promise.all(logins)).map(({ tokens }) => tokens!);
}

test.each<[string, (fixture: TestAuth) => Promise<void>]>([
  [
    'an invitation is accepted while whoever made it is demoted',
    async (fixture) => {
      const { admin, token } = await invitedByAdmin(fixture);
      await atOnce(
        fixture,
        [
          () => fixture.auth.acceptInvitation({ token, password: strongPassword }, anonymous()),
          () => fixture.auth.updateMember({ userId: admin.id, role: Role.MEMBER }, ownerOf(fixture)),
        ],
        auditHeads,
      );
    },
  ],
  [
    'somebody is invited while the organization is renamed and suspended',
    async (fixture) => {
      const { tenantId } = fixture.owner;
      await atOnce(
        fixture,
        [
          () => fixture.auth.createInvitation({ email: 'invited@example.com' }, ownerOf(fixture)),
          () => fixture.auth.updateOrganization({ name: 'Renamed' }, ownerOf(fixture)),
          () => fixture.auth.suspendOrganization({ tenantId }, operatorOf(fixture)),
        ],
        auditHeads,
      );
    },
  ],
  [
    'a user who has forgotten their password changes their profile',
    async (fixture) => {
      const user = await join(fixture, 'forgetful@example.com');
      await atOnce(
        fixture,
        [
          () => fixture.auth.forgotPassword({ email: user.email }, anonymous()),
          () => fixture.auth.updateProfile({ firstName: 'New' }, as(user)),
        ],
        auditHeads,
      );
    },
  ],
  [
    'a user who signs out everywhere is deactivated, whose invitations end too',
    async (fixture) => {
      const user = await join(fixture, 'leaver@example.com', Role.ADMIN);
      await fixture.auth.createInvitation({ email: 'invited@example.com' }, as(user));
      const sessions = await sessionsOf(fixture, user.email);
      await atOnce(
        fixture,
        [
          () => fixture.auth.updateMember({ userId: user.id, isActive: false }, ownerOf(fixture)),
          ...sessions.map(
            ({ refreshToken }) =>
              () =>
                fixture.auth.logout({ refreshToken }, anonymous()),
          ),
        ],
        auditHeads,
      );
    },
  ],
  [
    'a password is changed in a session and reset by mail',
    async (fixture) => {
      const user = await join(fixture, 'twice@example.com');
      await fixture.auth.forgotPassword({ email: user.email }, anonymous());
      const token = await tokenMailedTo(fixture, user.email);
      const passwords = { currentPassword: strongPassword, newPassword: 'Ch4nged-password' };
      const change = () => fixture.auth.changePassword(passwords, as(user));
      const reset = () => fixture.auth.resetPassword({ token, newPassword: 'An0ther-password' }, anonymous());
      // Whoever comes second is refused.
      await atOnce(
        fixture,
        [() => change().catch(() => {}), () => reset().catch(() => {})],
        'select from users for update',
      );
    },
  ],
  [
    'a user confirms a new address, to which they are invited, while the password is changed and forgotten and an operator changes the address',
    async (fixture) => {
      const user = await join(fixture, 'mover@example.com', Role.ADMIN);
      const email = 'moved@example.com';
      await fixture.auth.requestEmailChange({ email, currentPassword: strongPassword }, as(user));
      const token = await tokenMailedTo(fixture, email);
      await fixture.auth.createInvitation({ email }, as(user));
      const invited = await tokenMailedTo(fixture, email);
      const passwords = { currentPassword: strongPassword, newPassword: 'Ch4nged-password' };
      const calls = [
        () => fixture.auth.confirmEmailChange({ token }, as(user)),
        () => fixture.auth.acceptInvitation({ token: invited, password: strongPassword }, anonymous()),
        () => fixture.auth.changePassword(passwords, as(user)),
        () => fixture.auth.forgotPassword({ email: user.email }, anonymous()),
        () => fixture.auth.adminUpdateUser({ userId: user.id, email: 'other@example.com' }, operatorOf(fixture)),
      ];
      // Some of them are refused, according to who is first.
      await atOnce(
        fixture,
        calls.map((call) => () => call().catch(() => {})),
        auditHeads,
      );
    },
  ],
])('there is no deadlock when %s', async (_what, act) => {
  await using database = await createTestDatabase();
  {
    await using fixture = await startTestAuth({ database });
    await act(fixture);
  }
  // A connection reports its figures when it ends, at the latest.
  const others = 'select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';
  await waitFor(async () => (await rowsOf(database.url, others)).length === 0, { description: 'no connections' });
  const figures = 'select deadlocks from pg_stat_database where datname = current_database()';
  expect(await rowsOf(database.url, figures)).toEqual([{ deadlocks: '0' }]);
});
