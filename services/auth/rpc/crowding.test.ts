import { expect, test } from 'vitest';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, session, startTestAuth } from '../../../test/support/auth.ts';
import { onDatabase, operatorOf, ownerOf, strongPassword, tokenMailedTo } from '../../../test/support/people.ts';

test('whoever makes many changes at once waits for their own, and people of other organizations for none of them', async () => {
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
    const changes = Array.from({ length: 40 }, (_, n) =>
      auth.updateProfile({ firstName: `Name ${n}` }, ownerOf(fixture)),
    );
    const { tokens } = await auth.login({ email, password: strongPassword }, anonymous());
    const { id: userId, tenantId } = tokens!.user!;
    await auth.getProfile({}, session({ userId, tenantId, role: Role.OWNER }));
    await client.query('rollback');
    expect(await Promise.all(changes)).toHaveLength(40);
  });
});
