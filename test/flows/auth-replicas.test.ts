import { generateKeyPairSync } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { createSessionCredentials } from '../../edge/snapshots/sessions.ts';
import { removeOutdated } from '../../services/auth/workers/housekeeping.ts';
import {
  anonymous,
  ownerEmail,
  ownerPassword,
  publicUrl,
  session,
  startTestAuth,
  type TestAuth,
} from '../support/auth.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { asTableOwner, operatorOf, reasonOf } from '../support/people.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { silentLogger as logger } from '../support/silent-logger.ts';
import { waitFor } from '../support/wait-for.ts';

const login = async ({ auth }: TestAuth) =>
  (await auth.login({ email: ownerEmail, password: ownerPassword }, anonymous())).tokens!;
/** What the housekeeping of Auth is given. */
const databaseOf = ({ database }: TestAuth) =>
  openServiceDatabase({ service: 'auth', connection: database.url, entities: [], logger });
const newPrivateKey = () =>
  generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
const kidOf = (token: string) => decodeProtectedHeader(token).kid;

test('replicas that start at the same moment agree on one operator and one signing key', async () => {
  await using database = await createTestDatabase();
  const replicas = await Promise.all([
    startTestAuth({ database }),
    startTestAuth({ database }),
    startTestAuth({ database }),
  ]);
  const owners = new Set(replicas.map(({ owner }) => owner.userId));
  const kids = new Set((await Promise.all(replicas.map(login))).map(({ accessToken }) => kidOf(accessToken)));
  expect([owners.size, kids.size]).toEqual([1, 1]);
  for (const replica of replicas) await replica.close();
});

test('what one replica ends is refused at an edge of another, once the answer is given', async () => {
  await using database = await createTestDatabase();
  await using here = await startTestAuth({ database });
  await using there = await startTestAuth({ database });
  const edge = createSessionCredentials({ auth: here.auth, edgeId: uuidv7(), clock: systemClock, logger, publicUrl });
  await waitFor(() => edge.isLive, { description: 'a live feed' });
  for (let round = 0; round < 10; round += 1) {
    const { accessToken, user } = await login(here);
    const { sessionId } = await edge.authenticate(accessToken);
    await there.auth.logout({}, session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER, sessionId }));
    expect(() => edge.authenticate(accessToken)).toThrow('not valid');
  }
  await edge.close();
});

test('a change of its user ends a token, though the replica that issued it has a clock half a minute ahead', async () => {
  const ahead = new ClockAhead();
  ahead.aheadMs = 30_000;
  await using database = await createTestDatabase();
  await using there = await startTestAuth({ database });
  await using issuer = await startTestAuth({ database, clock: ahead });
  const edge = createSessionCredentials({ auth: there.auth, edgeId: uuidv7(), clock: systemClock, logger, publicUrl });
  await waitFor(() => edge.isLive, { description: 'a live feed' });
  const { accessToken, user } = await login(issuer);
  await edge.authenticate(accessToken);
  await there.auth.changePassword(
    { currentPassword: ownerPassword, newPassword: `${ownerPassword}-new` },
    session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER }),
  );
  expect(() => edge.authenticate(accessToken)).toThrow('not valid');
  // So does the end of the key that signed it.
  const signedIn = await issuer.auth.login({ email: ownerEmail, password: `${ownerPassword}-new` }, anonymous());
  await edge.authenticate(signedIn.tokens!.accessToken);
  await issuer.auth.rotateSigningKey({ compromised: true }, operatorOf(issuer));
  expect(() => edge.authenticate(signedIn.tokens!.accessToken)).toThrow('not valid');
  await edge.close();
});

test('what is ended after a failover that lost changes is refused at an edge that knew those, once the answer is given', async () => {
  await using fixture = await startTestAuth();
  const edge = createSessionCredentials({
    auth: fixture.auth,
    edgeId: uuidv7(),
    clock: systemClock,
    logger,
    publicUrl,
  });
  await waitFor(() => edge.isLive, { description: 'a live feed' });
  const signInAndOut = async (): Promise<string> => {
    const { accessToken, user } = await login(fixture);
    const { sessionId } = await edge.authenticate(accessToken);
    await fixture.auth.logout({}, session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER, sessionId }));
    return accessToken;
  };
  const { rows } = await asTableOwner(fixture, 'select version from feed');
  const kept = rows[0].version;
  for (let round = 0; round < 3; round += 1) await signInAndOut();
  await asTableOwner(fixture, 'delete from changes where version > $1', [kept]);
  await asTableOwner(fixture, 'update feed set version = $1', [kept]);

  const accessToken = await signInAndOut();
  expect(() => edge.authenticate(accessToken)).toThrow('not valid');
  await edge.close();
});

test('a refresh token of one replica is accepted by another, even after a rotation, for all of its seven days', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using database = await createTestDatabase();
  await using here = await startTestAuth({ database, clock });
  await using there = await startTestAuth({ database, clock });
  const { refreshToken, user } = await login(here);
  const unused = await login(here);
  const operator = session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER, operator: true });
  await here.auth.rotateSigningKey({}, operator);
  const { tokens } = await there.auth.refresh({ refreshToken }, anonymous());
  const { tokens: next } = await here.auth.refresh({ refreshToken: tokens!.refreshToken }, anonymous());
  expect(next!.user!.id).toBe(user!.id);
  clock.advance(7 * 86_400_000 - 1);
  const { tokens: late } = await here.auth.refresh({ refreshToken: unused.refreshToken }, anonymous());
  expect(kidOf(late!.accessToken)).not.toBe(kidOf(unused.accessToken));
});

test('a spent refresh token gets the same pair from another replica for ten seconds, though their clocks are half a minute apart', async () => {
  const [clock, ahead] = [new ClockAhead(), new ClockAhead()];
  ahead.aheadMs = 30_000;
  await using database = await createTestDatabase();
  const databaseNow = async () => clock.now();
  await using behind = await startTestAuth({ database, clock, databaseNow });
  await using other = await startTestAuth({ database, clock: ahead, databaseNow });
  for (const [first, second] of [
    [behind, other],
    [other, behind],
  ] as const) {
    const { refreshToken } = await login(first);
    const refreshAt = async ({ auth }: TestAuth) =>
      (await auth.refresh({ refreshToken }, anonymous())).tokens!.refreshToken;
    const next = await refreshAt(first);
    expect(await refreshAt(second)).toBe(next);
    for (const one of [clock, ahead]) one.aheadMs += 11_000;
    expect(await reasonOf(refreshAt(second))).toBe(ErrorReason.INVALID_TOKEN);
  }
});

test('a replica that could not read the keys at a rotation signs with the new one soon afterwards', async () => {
  await using database = await createTestDatabase();
  await using here = await startTestAuth({ database });
  await using there = await startTestAuth({ database });
  const before = kidOf((await login(there)).accessToken);
  await asTableOwner(
    here,
    `insert into signing_keys (kid, public_key, status, activated_at, expires_at)
     values ('unreadable', '', ${SigningKeyStatus.RETIRING}, now(), now() + interval '1 day')`,
  );
  await expect(here.auth.rotateSigningKey({}, operatorOf(here))).rejects.toThrow();
  expect(kidOf((await login(there)).accessToken)).toBe(before);
  await asTableOwner(here, `delete from signing_keys where kid = 'unreadable'`);
  await waitFor(async () => kidOf((await login(there)).accessToken) !== before, {
    description: 'the other replica to sign with the new key',
  });
}, 30_000);

test('a signing key survives restarts, sealed; a configured one is never stored, and replaces it without ending sessions', async () => {
  await using database = await createTestDatabase();
  const first = await startTestAuth({ database });
  const before = await login(first);
  const { rows } = await asTableOwner(first, 'select sealed_private_key from signing_keys');
  // An Ed25519 key in PKCS #8 begins with these bytes (RFC 8410 section 7).
  expect(Buffer.from(rows[0].sealed_private_key).includes(Buffer.from('302e020100300506032b6570', 'hex'))).toBe(false);
  await first.close();

  const second = await startTestAuth({ database });
  const kept = await login(second);
  expect(kidOf(kept.accessToken)).toBe(kidOf(before.accessToken));
  await second.close();

  await using third = await startTestAuth({ database, jwtPrivateKey: newPrivateKey() });
  const configured = await login(third);
  expect(kidOf(configured.accessToken)).not.toBe(kidOf(before.accessToken));
  const stored = await asTableOwner(third, 'select sealed_private_key from signing_keys where kid = $1', [
    kidOf(configured.accessToken),
  ]);
  expect(stored.rows[0].sealed_private_key).toBeNull();
  const { tokens } = await third.auth.refresh({ refreshToken: before.refreshToken }, anonymous());
  expect(kidOf(tokens!.accessToken)).toBe(kidOf(configured.accessToken));
});

test.each([
  ['another JWT_PRIVATE_KEY', newPrivateKey()],
  ['none', undefined],
])(
  'beside a replica with a new JWT_PRIVATE_KEY, one with %s signs on, for as long as what it signs is accepted',
  async (_name, former) => {
    const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
    await using database = await createTestDatabase();
    await using old = await startTestAuth({ database, clock, jwtPrivateKey: former });
    // Of several former keys the newest counts.
    if (former === undefined) await old.auth.rotateSigningKey({}, operatorOf(old));
    const before = await login(old);
    await using renewed = await startTestAuth({ database, clock, jwtPrivateKey: newPrivateKey() });
    const after = await login(renewed);
    expect(kidOf(after.accessToken)).not.toBe(kidOf(before.accessToken));
    // From this token the old replica learns of the new key.
    const { tokens: refreshed } = await old.auth.refresh({ refreshToken: after.refreshToken }, anonymous());
    const signedOn = await login(old);
    expect([refreshed!, signedOn].map(({ accessToken }) => kidOf(accessToken))).toEqual([
      kidOf(before.accessToken),
      kidOf(before.accessToken),
    ]);
    const { tokens: taken } = await renewed.auth.refresh({ refreshToken: signedOn.refreshToken }, anonymous());
    expect(kidOf(taken!.accessToken)).toBe(kidOf(after.accessToken));
    clock.advance(7 * 86_400_000);
    await expect(login(old)).rejects.toThrow();
  },
);

test('a leaked JWT_PRIVATE_KEY is ended, with every session, once another has taken its place, and not before', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using database = await createTestDatabase();
  const withKey = () => startTestAuth({ database, clock, jwtPrivateKey: newPrivateKey() });
  const rotate = (fixture: TestAuth, request: { compromised?: boolean; idempotencyKey?: string }) =>
    fixture.auth.rotateSigningKey(request, operatorOf(fixture));
  const refused = (rotation: Promise<unknown>) =>
    expect(rotation).rejects.toMatchObject({
      reason: ErrorReason.CONFLICT,
      message: expect.stringContaining('change that variable'),
    });
  await using leaked = await withKey();
  const before = await login(leaked);
  await refused(rotate(leaked, { compromised: true }));

  await using renewed = await withKey();
  await refused(rotate(renewed, {}));
  const request = { compromised: true, idempotencyKey: 'leaked' };
  const { signingKeys } = await rotate(renewed, request);
  const after = await login(renewed);
  expect(signingKeys.map(({ kid }) => kid)).toEqual([kidOf(after.accessToken)]);
  const refresh = ({ refreshToken }: { refreshToken: string }) => renewed.auth.refresh({ refreshToken }, anonymous());
  await expect(refresh(before)).rejects.toMatchObject({ reason: ErrorReason.INVALID_TOKEN });
  // A repeat ends nothing that began since.
  await rotate(renewed, request);
  await refresh(after);

  // Long after a change, it is the present key that leaked.
  await using next = await withKey();
  clock.advance(25 * 3_600_000);
  await refused(rotate(next, { compromised: true }));
});

test.each([
  ['no key at all', 'nonsense'],
  [
    'an RSA key',
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'pem', type: 'pkcs8' }),
  ],
])('%s in JWT_PRIVATE_KEY stops the start, naming the variable', async (_name, jwtPrivateKey) => {
  await using database = await createTestDatabase();
  await expect(startTestAuth({ database, jwtPrivateKey: String(jwtPrivateKey) })).rejects.toThrow('JWT_PRIVATE_KEY');
});

test('what is out of date is removed, and what still counts stays', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ clock });
  const database = await databaseOf(fixture);
  const old = await login(fixture);
  await fixture.auth.forgotPassword({ email: ownerEmail }, anonymous());
  clock.advance(40 * 86_400_000);
  const current = await login(fixture);
  await removeOutdated({ database, clock });
  const counts = await asTableOwner(
    fixture,
    `select (select count(*) from sessions)::int as sessions, (select count(*) from password_resets)::int as resets,
       (select count(*) from signing_keys)::int as keys, (select count(*) from audit_events)::int as events`,
  );
  expect(counts.rows[0]).toMatchObject({ sessions: 1, resets: 0, keys: 1 });
  expect(counts.rows[0].events).toBeGreaterThanOrEqual(4);
  await fixture.auth.refresh({ refreshToken: current.refreshToken }, anonymous());
  await expect(fixture.auth.refresh({ refreshToken: old.refreshToken }, anonymous())).rejects.toThrow();
  await database.close();
});

test('edges are told when a signing key that never came to sign is removed, and accept it until then', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ clock });
  const database = await databaseOf(fixture);
  const version = async () => (await asTableOwner(fixture, 'select version from feed')).rows[0].version;
  const publicKey = Buffer.from(generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x!, 'base64url');
  await asTableOwner(
    fixture,
    `insert into signing_keys (kid, public_key, status, activated_at) values ('left behind', $1, $2, $3)`,
    [publicKey, SigningKeyStatus.NEXT, new Date(clock.now())],
  );
  const before = await version();
  clock.advance(2 * 86_400_000);
  await removeOutdated({ database, clock });
  expect((await fixture.auth.getSigningKeys({}, anonymous())).signingKeys).toHaveLength(1);
  const { rows: told } = await asTableOwner(fixture, 'select kind from changes where version > $1', [before]);
  expect(told).toEqual([{ kind: 'signing_keys' }]);
  const after = await version();
  await removeOutdated({ database, clock });
  expect(await version()).toBe(after);
  await database.close();
});

test('a change is kept as long as an earlier one that counts: an edge that knows the earlier one is told of all the rest', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ clock });
  const database = await databaseOf(fixture);
  const kinds = async () => (await asTableOwner(fixture, 'select kind from changes order by version')).rows;
  const logout = async () => {
    const { user, accessToken } = await login(fixture);
    const sessionId = decodeJwt(accessToken).sid as string;
    await fixture.auth.logout({}, session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER, sessionId }));
  };
  await logout();
  await fixture.auth.rotateSigningKey({}, operatorOf(fixture));
  await logout();
  // Meanwhile the clock is an hour ahead: once it is right again, access tokens of the ended sessions have not expired.
  clock.set(clock.now() + 3_600_000);
  await removeOutdated({ database, clock });
  clock.set(clock.now() - 3_600_000);
  expect(await kinds()).toMatchObject([
    { kind: 'session' },
    { kind: 'signing_keys' },
    { kind: 'signing_keys' },
    { kind: 'session' },
  ]);
  clock.advance(40 * 86_400_000);
  await removeOutdated({ database, clock });
  expect(await kinds()).toMatchObject([{ kind: 'session' }]);
  await database.close();
});
