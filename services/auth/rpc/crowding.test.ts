import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import {
  anonymous,
  ownerEmail,
  ownerPassword,
  session,
  startTestAuth,
  type TestAuth,
} from '../../../test/support/auth.ts';
import { onDatabase, operatorOf, ownerOf, strongPassword, tokenMailedTo } from '../../../test/support/people.ts';

type Change = (fixture: TestAuth, n: number) => Promise<unknown>;

const changes: { what: string; change: Change }[] = [
  {
    what: 'a profile',
    change: (of, n) => of.auth.updateProfile({ firstName: `Name ${n}` }, ownerOf(of)),
  },
  {
    what: 'members',
    change: (of) => of.auth.updateMember({ userId: of.owner.userId, role: Role.OWNER }, ownerOf(of)),
  },
  {
    what: 'an organization',
    change: (of, n) => of.auth.updateOrganization({ name: `Name ${n}` }, ownerOf(of)),
  },
  {
    what: 'invitations',
    change: (of) =>
      expect(of.auth.deleteInvitation({ invitationId: uuidv7() }, ownerOf(of))).rejects.toMatchObject({
        reason: ErrorReason.NOT_FOUND,
      }),
  },
];

test.each(changes)(
  'many changes of $what made at once wait for each other, and people of other organizations wait for none of them',
  async ({ change }) => {
    await using fixture = await startTestAuth();
    const { auth, owner } = fixture;
    const email = 'stranger@example.com';
    await auth.adminCreateOrganization({ name: 'Strangers', ownerEmail: email }, operatorOf(fixture));
    const token = await tokenMailedTo(fixture, email);
    await auth.acceptInvitation(
      { token, password: strongPassword, firstName: 'Some', lastName: 'Stranger' },
      anonymous(),
    );
    await onDatabase(fixture, async (client) => {
      await client.query('begin');
      await client.query('select from users where id = $1 for no key update', [owner.userId]);
      const made = Promise.all(Array.from({ length: 40 }, (_, n) => change(fixture, n)));
      const { tokens } = await auth.login({ email, password: strongPassword }, anonymous());
      const { id: userId, tenantId } = tokens!.user!;
      await auth.getProfile({}, session({ userId, tenantId, role: Role.OWNER }));
      await client.query('rollback');
      expect(await made).toHaveLength(40);
    });
  },
);

test('while one account signs in at once from many addresses of its owner, people of others can sign in', async () => {
  await using fixture = await startTestAuth();
  const signIn = (ip: string) => fixture.auth.login({ email: ownerEmail, password: ownerPassword }, anonymous(ip));
  const addresses = Array.from({ length: 20 }, (_, n) => `198.51.100.${n}`);
  for (const ip of addresses) await signIn(ip);
  const flood = Promise.allSettled(addresses.flatMap((ip) => Array.from({ length: 3 }, () => signIn(ip))));
  // Nobody's address costs the same work as anybody's.
  const stranger = { email: 'stranger@example.com', password: strongPassword };
  for (const ip of ['203.0.113.1', '203.0.113.2', '203.0.113.3']) {
    await expect(fixture.auth.login(stranger, anonymous(ip))).rejects.toMatchObject({
      reason: ErrorReason.INVALID_CREDENTIALS,
    });
  }
  for (const one of await flood) {
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ reason: ErrorReason.RATE_LIMITED });
  }
});

test('while one organization requests many pages of the audit trail at once, people of others can sign in', async () => {
  await using fixture = await startTestAuth();
  await onDatabase(fixture, async (client) => {
    await client.query('begin');
    await client.query('lock table audit_events in access exclusive mode');
    const pages = Promise.all(Array.from({ length: 40 }, () => fixture.auth.listAuditEvents({}, ownerOf(fixture))));
    const stranger = { email: 'stranger@example.com', password: strongPassword };
    await expect(fixture.auth.login(stranger, anonymous())).rejects.toMatchObject({
      reason: ErrorReason.INVALID_CREDENTIALS,
    });
    await client.query('rollback');
    expect(await pages).toHaveLength(40);
  });
});
