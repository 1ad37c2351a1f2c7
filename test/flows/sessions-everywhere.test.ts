import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import { decodeJwt, decodeProtectedHeader, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createLogger } from '#shared/logger.ts';
import { Role } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createSessionCredentials, type SessionCredentials } from '../../edge/snapshots/sessions.ts';
import { anonymous, publicUrl, session, startTestAuth, type TestAuth } from '../support/auth.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { asTableOwner, join, operatorOf, ownerOf, strongPassword } from '../support/people.ts';
import { serveRpc, testTokens } from '../support/rpc-carriers.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

const logger = createLogger({ level: process.env.TEST_LOG_LEVEL ?? 'silent', name: 'edge' });
const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
let fixture: TestAuth;
let edges: SessionCredentials[];
let stateCalls = 0;

async function openEdge(auth: Client<typeof AuthService>, at = clock): Promise<SessionCredentials> {
  // Leases use the system's monotonic clock, as in production; wall time is the test's.
  const edgeClock = { now: at.now, monotonic: systemClock.monotonic };
  const credentials = createSessionCredentials({ auth, edgeId: uuidv7(), clock: edgeClock, logger, publicUrl });
  await waitFor(() => credentials.isLive, { description: 'a live feed' });
  return credentials;
}

beforeAll(async () => {
  fixture = await startTestAuth({ clock });
  const counted = {
    ...fixture.auth,
    getSessionState: ((request, options) => {
      stateCalls += 1;
      return fixture.auth.getSessionState(request, options);
    }) satisfies typeof fixture.auth.getSessionState,
  };
  edges = [await openEdge(counted), await openEdge(counted), await openEdge(counted)];
});
afterAll(async () => {
  await Promise.all(edges.map((edge) => edge.close()));
  await fixture.close();
});

let people = 0;
async function signIn(role: Role = Role.MEMBER) {
  people += 1;
  const user = await join(fixture, `person-${people}@example.com`, role);
  return { user, ...(await signInAs(user.email)) };
}
async function signInAs(email: string) {
  const { tokens } = await fixture.auth.login({ email, password: strongPassword }, anonymous());
  const caller = decodeJwt(tokens!.accessToken);
  return { tokens: tokens!, sessionId: caller.sid as string };
}
const reasonOn = async (edge: SessionCredentials, token: string): Promise<ErrorReason | null> => {
  try {
    await edge.authenticate(token);
    return null;
  } catch (error) {
    return (error as { reason: ErrorReason }).reason;
  }
};
const reasons = (token: string) => Promise.all(edges.map((edge) => reasonOn(edge, token)));
const everywhere = (reason: ErrorReason | null) => edges.map(() => reason);

test('a token that was verified once is decided at once, without a call', async () => {
  const { tokens, user } = await signIn(Role.ADMIN);
  const [edge] = edges;
  expect(edge!.authenticate(tokens.accessToken)).toBeInstanceOf(Promise);
  await edge!.authenticate(tokens.accessToken);
  const principal = edge!.authenticate(tokens.accessToken);
  expect(principal).toMatchObject({ kind: 'session', userId: user.id, role: Role.ADMIN, operator: false });
  expect(stateCalls).toBe(0);
});

test('a thousand simultaneous first requests with one token cost one signature check', async () => {
  const { tokens } = await signIn();
  const herd = Array.from({ length: 1_000 }, () => edges[0]!.authenticate(tokens.accessToken));
  const principals = new Set(await Promise.all(herd));
  expect(principals.size).toBe(1);
});

test('once a logout is answered, no edge accepts the session', async () => {
  const { user, tokens, sessionId } = await signIn();
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(null));
  await fixture.auth.logout({}, session({ userId: user.id, tenantId: user.tenantId, role: Role.MEMBER, sessionId }));
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
});

test('once a deactivation, a new role or a new password is answered, old tokens are refused and new ones are not', async () => {
  const { user, tokens } = await signIn();
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(null));

  await fixture.auth.updateMember({ userId: user.id, role: Role.ADMIN }, ownerOf(fixture));
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
  const { tokens: refreshed } = await fixture.auth.refresh({ refreshToken: tokens.refreshToken }, anonymous());
  expect(await reasons(refreshed!.accessToken)).toEqual(everywhere(null));

  await fixture.auth.updateMember({ userId: user.id, isActive: false }, ownerOf(fixture));
  expect(await reasons(refreshed!.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
  await fixture.auth.updateMember({ userId: user.id, isActive: true }, ownerOf(fixture));
  const { tokens: again } = await signInAs(user.email);
  expect(await reasons(again.accessToken)).toEqual(everywhere(null));

  await fixture.auth.changePassword(
    { currentPassword: strongPassword, newPassword: 'Ch4nged-password' },
    session({ userId: user.id, tenantId: user.tenantId, role: Role.ADMIN }),
  );
  expect(await reasons(again.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
});

test('once a suspension is answered, every edge knows it and sockets are told; a restore ends it', async () => {
  const { tokens } = await signIn();
  const { tenantId } = fixture.owner;
  let told = 0;
  edges[0]!.onEnded(await edges[0]!.authenticate(tokens.accessToken), () => (told += 1));
  const suspended = async () =>
    Promise.all(edges.map(async (edge) => (await edge.authenticate(tokens.accessToken)).tenantSuspended));
  expect(await suspended()).toEqual([false, false, false]);
  await fixture.auth.suspendOrganization({ tenantId, reason: 'unpaid' }, operatorOf(fixture));
  expect(await suspended()).toEqual([true, true, true]);
  expect(told).toBe(1);
  expect(fixture.refreshes.at(-1)?.tenants).toMatchObject([{ tenantId, suspended: true }]);
  await fixture.auth.restoreOrganization({ tenantId }, operatorOf(fixture));
  expect(await suspended()).toEqual([false, false, false]);
  expect(told).toBe(1);
});

test('a connection opened while its session ends is told all the same', async () => {
  const { user, tokens, sessionId } = await signIn();
  const principal = await edges[0]!.authenticate(tokens.accessToken);
  await fixture.auth.logout({}, session({ userId: user.id, tenantId: user.tenantId, role: Role.MEMBER, sessionId }));
  await new Promise<void>((resolve) => edges[0]!.onEnded(principal, () => resolve()));
});

test('a connection ends when its user is changed, but not one opened with a token from after the change', async () => {
  const { user, tokens } = await signIn();
  const told: string[] = [];
  const [edge] = edges;
  edge!.onEnded(await edge!.authenticate(tokens.accessToken), () => told.push('before'));
  await fixture.auth.updateMember({ userId: user.id, role: Role.ADMIN }, ownerOf(fixture));
  const { tokens: refreshed } = await fixture.auth.refresh({ refreshToken: tokens.refreshToken }, anonymous());
  edge!.onEnded(await edge!.authenticate(refreshed!.accessToken), () => told.push('after'));
  const { user: other } = await signIn();
  await fixture.auth.updateMember({ userId: other.id, role: Role.ADMIN }, ownerOf(fixture));
  expect(told).toEqual(['before']);
});

test('a token is refused from the millisecond of its end on, verified before or not', async () => {
  const { tokens } = await signIn();
  const { tokens: other } = await signIn();
  await edges[0]!.authenticate(tokens.accessToken);
  const endMs = decodeJwt(tokens.accessToken).exp! * 1000;
  clock.set(endMs - 1);
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(null));
  clock.set(endMs);
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(ErrorReason.EXPIRED_TOKEN));
  clock.set(decodeJwt(other.accessToken).exp! * 1000);
  expect(await reasons(other.accessToken)).toEqual(everywhere(ErrorReason.EXPIRED_TOKEN));
});

test('signing keys rotate under load without a refused token; a compromised key is refused at once', async () => {
  const { user, tokens } = await signIn();
  let running = true;
  const outcomes: (ErrorReason | null)[] = [];
  let latest = tokens;
  const load = (async () => {
    while (running) {
      const { tokens: next } = await fixture.auth.refresh({ refreshToken: latest.refreshToken }, anonymous());
      latest = next!;
      outcomes.push(...(await reasons(latest.accessToken)), ...(await reasons(tokens.accessToken)));
    }
  })();
  for (let rotation = 0; rotation < 5; rotation += 1) await fixture.auth.rotateSigningKey({}, operatorOf(fixture));
  running = false;
  await load;
  expect(outcomes.length).toBeGreaterThan(10);
  expect(outcomes.every((outcome) => outcome === null)).toBe(true);
  expect(decodeProtectedHeader(latest.accessToken).kid).not.toBe(decodeProtectedHeader(tokens.accessToken).kid);

  await fixture.auth.rotateSigningKey({ compromised: true }, operatorOf(fixture));
  expect(await reasons(latest.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
  expect(await reasons(tokens.accessToken)).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
  const refreshed = await fixture.auth.refresh({ refreshToken: latest.refreshToken }, anonymous()).catch((e) => e);
  expect(refreshed.reason).toBe(ErrorReason.INVALID_TOKEN);
  const { tokens: fresh } = await signInAs(user.email);
  expect(await reasons(fresh.accessToken)).toEqual(everywhere(null));
});

test('a compromised signing key ends the connections of the sessions it signed; an ordinary rotation ends none', async () => {
  const { tokens } = await signIn();
  let told = 0;
  edges[0]!.onEnded(await edges[0]!.authenticate(tokens.accessToken), () => (told += 1));
  await fixture.auth.rotateSigningKey({}, operatorOf(fixture));
  expect(told).toBe(0);
  await fixture.auth.rotateSigningKey({ compromised: true }, operatorOf(fixture));
  expect(told).toBe(1);
});

test('a rotation for a compromised key also ends the new key of an interrupted rotation, which cannot be resumed', async () => {
  const rotate = (request: { idempotencyKey?: string; compromised?: boolean }) =>
    fixture.auth.rotateSigningKey(request, operatorOf(fixture));
  // The key is published, but does not begin to sign.
  await asTableOwner(
    fixture,
    `create function fail() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
     create trigger fail before update on signing_keys execute function fail()`,
  );
  const cutOff = { idempotencyKey: uuidv7() };
  await expect(rotate(cutOff)).rejects.toThrow();
  await asTableOwner(fixture, 'drop trigger fail on signing_keys');

  const { signingKeys } = await rotate({ compromised: true });
  expect(signingKeys.map(({ status }) => status)).toEqual([SigningKeyStatus.ACTIVE]);
  expect((await rotate(cutOff).catch((error) => error)).reason).toBe(ErrorReason.CONFLICT);
});

test('a rotation repeated with its Idempotency-Key does not rotate again', async () => {
  const rotate = (request: { idempotencyKey: string; compromised?: boolean }) =>
    fixture.auth.rotateSigningKey(request, operatorOf(fixture));
  const idempotencyKey = uuidv7();
  const { signingKeys: first } = await rotate({ idempotencyKey });
  const { signingKeys: again } = await rotate({ idempotencyKey });
  expect(again.map(({ kid, status }) => [kid, status])).toEqual(first.map(({ kid, status }) => [kid, status]));
  const other = await rotate({ idempotencyKey, compromised: true }).catch((error) => error);
  expect(other.reason).toBe(ErrorReason.IDEMPOTENCY_KEY_REUSED);
  const { signingKeys: next } = await rotate({ idempotencyKey: uuidv7() });
  expect(next.length).toBe(first.length + 1);
});

test('no forged token is believed (RFC 8725)', async () => {
  const { tokens } = await signIn();
  const claims = decodeJwt(tokens.accessToken);
  const { kid } = decodeProtectedHeader(tokens.accessToken);
  const own = generateKeyPairSync('ed25519');
  const published = (await fixture.auth.getSigningKeys({}, anonymous())).signingKeys.find((key) => key.kid === kid)!;
  const forge = (header: object, payload: object = claims, key: KeyObject | Uint8Array = own.privateKey) =>
    new SignJWT({ ...payload }).setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid, ...header }).sign(key);
  const [head, body, signature] = tokens.accessToken.split('.') as [string, string, string];
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const jwk = own.publicKey.export({ format: 'jwk' });
  const forgeries: Record<string, string> = {
    'no algorithm': new UnsecuredJWT({ ...claims }).encode(),
    'no signature': `${head}.${body}.`,
    'HMAC under the public key': await forge({ alg: 'HS256' }, claims, published.publicKey),
    'a foreign key': await forge({}),
    'its own key in jwk': await forge({ jwk }),
    'a key elsewhere in jku': await forge({ jku: 'http://127.0.0.1:9/keys' }),
    'a certificate elsewhere in x5u': await forge({ x5u: 'http://127.0.0.1:9/cert' }),
    'a critical parameter nobody knows': `${encode({ alg: 'EdDSA', typ: 'at+jwt', kid, crit: ['x'], x: 1 })}.${body}.${signature}`,
    'a traversing kid': await forge({ kid: '../../../../dev/null' }),
    'an injecting kid': await forge({ kid: "' or '1'='1" }),
    'a prototype for a kid': await forge({ kid: '__proto__' }),
    'other claims under the same signature': `${head}.${encode({ ...claims, operator: true })}.${signature}`,
    'another type': `${encode({ alg: 'EdDSA', typ: 'rt+jwt', kid })}.${body}.${signature}`,
    'a refresh token': tokens.refreshToken,
    'not a token': 'a.b.c',
    'an endless token': `${head}.${'a'.repeat(100_000)}.${signature}`,
  };
  for (const [name, token] of Object.entries(forgeries)) {
    expect(await reasons(token), name).toEqual(everywhere(ErrorReason.INVALID_TOKEN));
  }
});

test('a token that our own key signed for something else is not believed', async () => {
  const signing = generateKeyPairSync('ed25519');
  const pem = signing.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  await using configured = await startTestAuth({ clock, jwtPrivateKey: pem });
  const edge = await openEdge(configured.auth);
  const { tokens } = await configured.auth.login(
    { email: 'owner@example.com', password: 'Correct-horse-1' },
    anonymous(),
  );
  const claims = decodeJwt(tokens!.accessToken);
  const { kid } = decodeProtectedHeader(tokens!.accessToken);
  const sign = (changes: object, typ = 'at+jwt') => {
    const payload = Object.fromEntries(Object.entries({ ...claims, ...changes }).filter(([, v]) => v !== undefined));
    return new SignJWT(payload).setProtectedHeader({ alg: 'EdDSA', typ, kid }).sign(signing.privateKey);
  };
  expect(await reasonOn(edge, await sign({}))).toBe(null);
  const wrong: Record<string, Promise<string>> = {
    'wrong issuer': sign({ iss: 'https://elsewhere.example' }),
    'wrong audience': sign({ aud: 'something-else' }),
    'no expiry': sign({ exp: undefined }),
    'not before the future': sign({ nbf: claims.iat! + 3600 }),
    'no session': sign({ sid: undefined }),
    'a subject that is no id': sign({ sub: 'root' }),
    'an invented role': sign({ role: 'superuser' }),
    'the type of a refresh token': sign({}, 'rt+jwt'),
    'no type': sign({}, 'JWT'),
  };
  for (const [name, token] of Object.entries(wrong)) {
    expect(await reasonOn(edge, await token), name).toBe(ErrorReason.INVALID_TOKEN);
  }
  await edge.close();
});

test('with the feed blackholed, a session ended elsewhere is refused within two seconds, and nobody hangs', async () => {
  await using server = await serveRpc([fixture.rpc]);
  await using proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(server.url).port) } });
  const transport = createRpcClientTransport({
    url: `http://${proxy.host}:${proxy.port}`,
    tokens: testTokens('edge'),
  });
  const far = await openEdge(createRpcClient(AuthService, transport));
  const { user, tokens, sessionId } = await signIn();
  const { tokens: sound } = await signIn();
  expect(await reasonOn(far, tokens.accessToken)).toBe(null);
  expect(await reasonOn(far, sound.accessToken)).toBe(null);

  await proxy.set({ kind: 'blackhole' });
  const caller = session({ userId: user.id, tenantId: user.tenantId, role: Role.MEMBER, sessionId });
  using watch = startStopwatch();
  await fixture.auth.logout({}, caller);
  // The answer waits for the lease of the unreachable edge, and no longer.
  expect(watch.ms).toBeLessThan(3_000);
  // It cannot be checked, which is no reason to call a good token bad.
  expect(await reasonOn(far, tokens.accessToken)).toBe(ErrorReason.OVERLOADED);
  expect(await reasonOn(far, sound.accessToken)).toBe(ErrorReason.OVERLOADED);

  await proxy.set({ kind: 'pass' });
  await waitFor(() => far.isLive, { description: 'the feed to come back' });
  expect(await reasonOn(far, tokens.accessToken)).toBe(ErrorReason.INVALID_TOKEN);
  expect(await reasonOn(far, sound.accessToken)).toBe(null);
  await far.close();
  transport.close();
});

test('a feed that restarts ends no session that was opened since its user changed', async () => {
  await using server = await serveRpc([fixture.rpc]);
  await using proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(server.url).port) } });
  const transport = createRpcClientTransport({
    url: `http://${proxy.host}:${proxy.port}`,
    tokens: testTokens('edge'),
  });
  const far = await openEdge(createRpcClient(AuthService, transport));
  const { user, tokens } = await signIn();
  const told: string[] = [];
  const open = async (name: string, accessToken: string) =>
    far.onEnded(await far.authenticate(accessToken), () => told.push(name));
  const become = (role: Role) => fixture.auth.updateMember({ userId: user.id, role }, ownerOf(fixture));
  const begunAnew = async (meanwhile: () => Promise<unknown>) => {
    await proxy.set({ kind: 'blackhole' });
    await waitFor(() => !far.isLive, { description: 'the lease to lapse' });
    await meanwhile();
    await proxy.set({ kind: 'pass' });
    await waitFor(() => far.isLive, { description: 'the feed to come back' });
  };

  await open('before the change', tokens.accessToken);
  await become(Role.ADMIN);
  expect(told).toEqual(['before the change']);
  const { tokens: since } = await signInAs(user.email);
  await open('since', since.accessToken);
  await begunAnew(async () => {});
  expect(told).toEqual(['before the change']);
  await begunAnew(() => become(Role.MEMBER));
  expect(told).toEqual(['before the change', 'since']);
  await far.close();
  transport.close();
});

test('with the feed silent a request is decided by what Auth says now, not by a question asked before it', async () => {
  let isSilent = false;
  const answered = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const edge = await openEdge({
    ...fixture.auth,
    async *watchAuth(request, options) {
      for await (const event of fixture.auth.watchAuth(request, options)) if (!isSilent) yield event;
    },
    acknowledgeAuth: (request, options) =>
      isSilent ? Promise.reject(new Error('silent')) : fixture.auth.acknowledgeAuth(request, options),
    getSessionState: async (request, options) => {
      const answer = await fixture.auth.getSessionState(request, options);
      answered.resolve();
      await released.promise;
      return answer;
    },
  });
  const { user, tokens, sessionId } = await signIn();
  const { tokens: sound } = await signIn();
  const { user: returning } = await signIn();
  await fixture.auth.updateMember({ userId: returning.id, isActive: false }, ownerOf(fixture));
  const { user: gone, tokens: left, sessionId: endedId } = await signIn();
  await fixture.auth.logout(
    {},
    session({ userId: gone.id, tenantId: gone.tenantId, role: Role.MEMBER, sessionId: endedId }),
  );
  expect(await reasonOn(edge, tokens.accessToken)).toBe(null);
  isSilent = true;
  await waitFor(() => !edge.isLive, { description: 'the lease to lapse' });
  const before = reasonOn(edge, tokens.accessToken);
  await answered.promise;
  await fixture.auth.logout({}, session({ userId: user.id, tenantId: user.tenantId, role: Role.MEMBER, sessionId }));
  const after = reasonOn(edge, tokens.accessToken);
  released.resolve();
  // A failover may lose the end of a session, but who was told of it has signed out.
  await asTableOwner(fixture, 'update sessions set ended_at = null where id = $1', [endedId]);
  expect(await reasonOn(edge, left.accessToken)).toBe(ErrorReason.INVALID_TOKEN);
  expect(await before).toBe(null);
  expect(await after).toBe(ErrorReason.INVALID_TOKEN);
  const { tenantId } = fixture.owner;
  await fixture.auth.suspendOrganization({ tenantId, reason: 'unpaid' }, operatorOf(fixture));
  expect((await edge.authenticate(sound.accessToken)).tenantSuspended).toBe(true);
  await fixture.auth.restoreOrganization({ tenantId }, operatorOf(fixture));
  expect((await edge.authenticate(sound.accessToken)).tenantSuspended).toBe(false);
  await fixture.auth.updateMember({ userId: returning.id, isActive: true }, ownerOf(fixture));
  expect(await reasonOn(edge, (await signInAs(returning.email)).tokens.accessToken)).toBe(null);
  // Of a key that signs since then nobody here can tell; one that was deleted is believed no longer.
  await fixture.auth.rotateSigningKey({}, operatorOf(fixture));
  expect(await reasonOn(edge, (await signIn()).tokens.accessToken)).toBe(ErrorReason.OVERLOADED);
  const { kid } = decodeProtectedHeader(sound.accessToken);
  await asTableOwner(fixture, 'delete from signing_keys where kid = $1', [kid]);
  expect(await reasonOn(edge, sound.accessToken)).toBe(ErrorReason.INVALID_TOKEN);
  await edge.close();
});
