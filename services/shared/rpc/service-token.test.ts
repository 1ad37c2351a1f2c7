import { createHmac } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { ErrorReason } from '../errors.ts';
import { type Caller, CallerKind, CallerSchema, Role, serviceCaller } from './caller.ts';
import { createServiceTokens } from './service-token.ts';

const startMs = Date.UTC(2026, 10, 21);
const secret = 'the first service secret, long enough';
const newSecret = 'the next service secret, long enough';
const keys = 'modelgateway.keys.v1.KeysService';

const user: Caller = create(CallerSchema, {
  kind: CallerKind.SESSION,
  tenantId: '0198a000-0000-7000-8000-000000000001',
  userId: '0198a000-0000-7000-8000-000000000002',
  role: Role.OWNER,
  operator: true,
  requestId: 'req_1',
});

const tokensOf = (issuer: string, clock = new ManualClock(startMs), secrets = [secret]) =>
  createServiceTokens({ issuer, secrets, clock });

const refused = { name: 'GatewayError', reason: ErrorReason.UNAUTHENTICATED_SERVICE };

/** A token with any header and claims, signed by hand. */
function forged(header: object, claims: object, key = secret): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const signed = `${encode(header)}.${encode(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}

const goodHeader = { alg: 'HS256', typ: 'service+jwt' };
const goodClaims = {
  iss: 'edge',
  aud: keys,
  iat: startMs / 1000,
  exp: startMs / 1000 + 60,
  caller: Buffer.from(toBinary(CallerSchema, user)).toString('base64url'),
};

test('a token carries the whole caller to the service it is for', async () => {
  const token = await tokensOf('edge').mint(keys, user);
  expect(await tokensOf('keys').verify(token, keys, ['edge'])).toEqual(user);
});

test('a hand-made token in our format is accepted, so that each forgery below fails for a single reason', async () => {
  expect(await tokensOf('keys').verify(forged(goodHeader, goodClaims), keys, ['edge'])).toEqual(user);
});

test('a service that acts for itself is who its token says, not who it claims to be', async () => {
  const token = await tokensOf('jobs').mint(keys, serviceCaller('billing'));
  const caller = await tokensOf('keys').verify(token, keys, ['jobs']);
  expect(caller).toMatchObject({ kind: CallerKind.SERVICE, service: 'jobs' });
});

test('a user cannot pass for a service', async () => {
  const token = await tokensOf('edge').mint(keys, create(CallerSchema, { ...user, service: 'billing' }));
  expect((await tokensOf('keys').verify(token, keys, ['edge'])).service).toBe('');
});

const now = startMs / 1000;
test.each<[string, string]>([
  ['nothing', ''],
  ['not a JWT', 'abc'],
  ['another audience', forged(goodHeader, { ...goodClaims, aud: 'modelgateway.auth.v1.AuthService' })],
  ['an issuer which may not call', forged(goodHeader, { ...goodClaims, iss: 'mail' })],
  ['another secret', forged(goodHeader, goodClaims, newSecret)],
  ['an expired token', forged(goodHeader, { ...goodClaims, iat: now - 100, exp: now - 40 })],
  ['a token that lives too long', forged(goodHeader, { ...goodClaims, exp: now + 3600 })],
  ['an old token that still lives', forged(goodHeader, { ...goodClaims, iat: now - 120, exp: now + 60 })],
  ['a token of the future', forged(goodHeader, { ...goodClaims, iat: now + 60, exp: now + 120 })],
  ['no expiry', forged(goodHeader, { ...goodClaims, exp: undefined })],
  ['no issue time', forged(goodHeader, { ...goodClaims, iat: undefined })],
  ['no caller', forged(goodHeader, { ...goodClaims, caller: undefined })],
  ['a caller that cannot be read', forged(goodHeader, { ...goodClaims, caller: '_____w' })],
  ['no type', forged({ alg: 'HS256' }, goodClaims)],
  ['a session token', forged({ alg: 'HS256', typ: 'at+jwt' }, goodClaims)],
  ['the algorithm HS512', forged({ alg: 'HS512', typ: 'service+jwt' }, goodClaims)],
  ['the algorithm none', `${forged({ alg: 'none', typ: 'service+jwt' }, goodClaims).replace(/[^.]*$/, '')}`],
  ['an unknown critical header', forged({ ...goodHeader, crit: ['x'], x: 1 }, goodClaims)],
])('%s is refused', async (_name, token) => {
  await expect(tokensOf('keys').verify(token, keys, ['edge'])).rejects.toMatchObject(refused);
});

test.each<[string, object, object?]>([
  ['aud', { aud: 'KeysService' }],
  ['iss', { iss: 'my-team' }],
  ['iat', { iat: undefined }],
  ['exp', { exp: now + 3600 }],
  ['caller', { caller: undefined }],
  ['typ', {}, { alg: 'HS256', typ: 'JWT' }],
])(
  'whoever signs with the right secret is told that `%s` is what is wrong',
  async (claim, claims, header = goodHeader) => {
    const refusal = tokensOf('keys').verify(forged(header, { ...goodClaims, ...claims }), keys, ['edge']);
    await expect(refusal).rejects.toMatchObject({ ...refused, message: expect.stringContaining(`\`${claim}\``) });
  },
);

test('a service that names no callers accepts none', async () => {
  const token = await tokensOf('edge').mint(keys, user);
  await expect(tokensOf('keys').verify(token, keys, [])).rejects.toMatchObject(refused);
});

const key = { kind: CallerKind.API_KEY, apiKeyId: '0198a000-0000-7000-8000-000000000003', operator: false };

test.each<[string, string, Partial<Caller>]>([
  ['an organization by no UUID', 'tenant_id', { tenantId: 'acme' }],
  ['a user by no UUID', 'user_id', { userId: '7' }],
  ['a key by no UUID', 'api_key_id', { ...key, apiKeyId: 'k1' }],
  ['a session by no UUID', 'session_id', { sessionId: 's' }],
  ['a kind that there is not', 'kind', { kind: 99 as CallerKind }],
  ['a role that there is not', 'role', { role: 99 as Role }],
  ['an address longer than any', 'ip', { ip: '1'.repeat(65) }],
  ['an address that cannot be stored', 'ip', { ip: '127.0.0.1\0' }],
  ['a request id that no usage event can have', 'request_id', { requestId: 'r'.repeat(256) }],
  ['a key without its id', 'api_key_id', { ...key, apiKeyId: '' }],
  ['a key of nobody', 'user_id', { ...key, userId: '' }],
  ['a session of no organization', 'tenant_id', { tenantId: '' }],
  ['a role and no credential', 'kind', { kind: CallerKind.UNSPECIFIED, operator: false }],
  ['an operator’s rights and no credential', 'kind', { kind: CallerKind.UNSPECIFIED, role: Role.UNSPECIFIED }],
  ['a service with a role and no organization', 'tenant_id', { kind: CallerKind.SERVICE, tenantId: '' }],
])('a caller with %s is refused, naming %s', async (_what, field, fault) => {
  const token = await tokensOf('edge').mint(keys, create(CallerSchema, { ...user, ...fault }));
  const refusal = tokensOf('keys').verify(token, keys, ['edge']);
  await expect(refusal).rejects.toMatchObject({ ...refused, message: expect.stringContaining(`\`${field}\``) });
});

test('ids in capitals are the same ids', async () => {
  const token = await tokensOf('edge').mint(
    keys,
    create(CallerSchema, { ...user, tenantId: user.tenantId.toUpperCase(), userId: user.userId.toUpperCase() }),
  );
  expect(await tokensOf('keys').verify(token, keys, ['edge'])).toEqual(user);
});

test('a token is valid for a minute plus the tolerance for clocks, no longer', async () => {
  const clock = new ManualClock(startMs);
  const token = await tokensOf('edge', clock).mint(keys, user);
  const verifier = tokensOf('keys', clock);
  clock.advance(60_000);
  expect(await verifier.verify(token, keys, ['edge'])).toEqual(user);
  clock.advance(31_000);
  await expect(verifier.verify(token, keys, ['edge'])).rejects.toMatchObject(refused);
});

test.each([
  [-120_000, 'made 120 s ago'],
  [40_000, 'made 40 s in the future'],
])('a process whose clock differs by %s ms is told so, and how much', async (differenceMs, difference) => {
  const token = await tokensOf('edge', new ManualClock(startMs + differenceMs)).mint(keys, user);
  const refusal = { ...refused, message: expect.stringMatching(`${difference}.*clocks`) };
  await expect(tokensOf('keys').verify(token, keys, ['edge'])).rejects.toMatchObject(refusal);
});

test.each([-25_000, 25_000])('a process whose clock differs by %s ms is understood', async (differenceMs) => {
  const token = await tokensOf('edge', new ManualClock(startMs + differenceMs)).mint(keys, user);
  expect(await tokensOf('keys').verify(token, keys, ['edge'])).toEqual(user);
});

test('a service’s own token is created once per half of its life, and again if the clock went back', async () => {
  const clock = new ManualClock(startMs);
  const tokens = tokensOf('jobs', clock);
  const mint = () => tokens.mint(keys, serviceCaller('jobs'));
  const first = await mint();
  clock.advance(29_000);
  expect(await mint()).toBe(first);
  expect(await tokens.mint('modelgateway.auth.v1.AuthService', serviceCaller('jobs'))).not.toBe(first);
  clock.advance(2_000);
  const second = await mint();
  expect(second).not.toBe(first);
  clock.set(startMs - 3_600_000);
  expect(await mint()).not.toBe(second);
});

test('a secret is replaced without a refused call, while some processes are a step behind', async () => {
  const clock = new ManualClock(startMs);
  const steps = [[secret], [secret, newSecret], [newSecret, secret], [newSecret]].map((secrets) =>
    tokensOf('edge', clock, secrets),
  );
  for (const [index, behind] of steps.slice(0, -1).entries()) {
    const ahead = steps[index + 1]!;
    expect(await ahead.verify(await behind.mint(keys, user), keys, ['edge'])).toEqual(user);
    expect(await behind.verify(await ahead.mint(keys, user), keys, ['edge'])).toEqual(user);
  }
  const [before, , , after] = steps;
  const refusal = { ...refused, message: expect.stringContaining('another SERVICE_SECRET') };
  await expect(after!.verify(await before!.mint(keys, user), keys, ['edge'])).rejects.toMatchObject(refusal);
});

test.each([[[]], [['']], [['short']], [[secret, 'short']]])('the secrets %j are refused at start', (secrets) => {
  expect(() => tokensOf('edge', undefined, secrets)).toThrow(/service secret/i);
});
