import { decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService } from '#shared/rpc/caller.ts';
import { anonymous, ownerEmail, ownerPassword, startTestAuth } from '../../../test/support/auth.ts';
import { asTableOwner, join, operatorOf, ownerOf, tokenMailedTo } from '../../../test/support/people.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

test('a change that an earlier call already made is answered only when every edge decides by it', async () => {
  await using fixture = await startTestAuth();
  const { auth } = fixture;
  const [leaver, stranger] = [await join(fixture, 'leaver@example.com'), await join(fixture, 'stranger@example.com')];
  const { tokens } = await auth.login({ email: ownerEmail, password: ownerPassword }, anonymous());
  const [feed] = (await asTableOwner(fixture, 'select version from feed')).rows;
  const version = BigInt(feed.version);
  const changed = async () =>
    (await asTableOwner(fixture, 'select from changes where version > $1', [version])).rowCount;

  const edgeId = uuidv7();
  expect(await auth.acknowledgeAuth({ edgeId, version }, asService('edge'))).toMatchObject({ leaseMs: 2_000 });
  const goesByTheOldState = async () => {
    const leases = 'select from watchers where edge_id = $1 and lease_until > clock_timestamp()';
    return (await asTableOwner(fixture, leases, [edgeId])).rowCount === 1;
  };
  const calls = [
    () => auth.logout({ refreshToken: tokens!.refreshToken }, anonymous()),
    () => auth.updateMember({ userId: leaver.id, isActive: false }, ownerOf(fixture)),
    () => auth.adminUpdateUser({ userId: stranger.id, isActive: false }, operatorOf(fixture)),
    () => auth.suspendOrganization({ tenantId: fixture.owner.tenantId, reason: 'unpaid' }, operatorOf(fixture)),
  ];
  // Each changes what it has to, and then waits for the edge.
  const first = calls.map((call) => call());
  await waitFor(async () => (await changed()) === calls.length, { description: 'the changes' });
  const repeats = calls.map(async (call) => {
    await call();
    return goesByTheOldState();
  });
  expect(await Promise.all(repeats)).toEqual(calls.map(() => false));
  await Promise.all(first);
});

test('a password reset is answered, and a new signing key signs, only when every edge decides by it', async () => {
  await using fixture = await startTestAuth();
  const { auth } = fixture;
  const { email } = await join(fixture, 'forgetful@example.com');
  await auth.forgotPassword({ email }, anonymous());
  const token = await tokenMailedTo(fixture, email);
  const { tokens } = await auth.login({ email: ownerEmail, password: ownerPassword }, anonymous());
  const { kid } = decodeProtectedHeader(tokens!.accessToken);
  const edgeId = uuidv7();
  const [feed] = (await asTableOwner(fixture, 'select version from feed')).rows;
  await auth.acknowledgeAuth({ edgeId, version: BigInt(feed.version) }, asService('edge'));
  const state = async () => {
    const lease = 'select from watchers where edge_id = $1 and lease_until > clock_timestamp()';
    const key = `select from signing_keys where status = ${SigningKeyStatus.ACTIVE} and kid <> $2`;
    const both = `select exists (${lease}) as "goesByTheOldState", exists (${key}) as "isSigning"`;
    return (await asTableOwner(fixture, both, [edgeId, kid])).rows[0];
  };
  const rotation = auth.rotateSigningKey({}, operatorOf(fixture));
  const reset = auth.resetPassword({ token, newPassword: 'An0ther-password' }, anonymous()).then(state);
  const signing = waitFor(
    async () => {
      const now = await state();
      return now.isSigning && now;
    },
    { description: 'the new key to sign', intervalMs: 5 },
  );
  expect(await Promise.all([signing, reset, rotation])).toMatchObject([
    { goesByTheOldState: false },
    { goesByTheOldState: false },
    {},
  ]);
});
