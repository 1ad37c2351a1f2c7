import { setTimeout as delay } from 'node:timers/promises';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KeyDigest } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { unaryTimeoutMsDefault } from '#shared/rpc/deadline.ts';
import { as, sessionOf, startTestKeys, type TestKeys, testPeppers } from '../../../test/support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { KeyPrincipal } from '../../principal.ts';
import { digestName, digestsOf } from './key-loads.ts';
import { Revocations } from './revocations.ts';

let database: TestDatabase;
let service: TestKeys;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestKeys(database.url);
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await database.drop();
});

const user = as(sessionOf());

/** A key about which no feed says anything; `told` is called when it ends. `expiresAtMs` is what its connection was opened with. */
async function heldKey(
  revocations: Revocations,
  name: string,
  told: string[],
  expiresAtMs = Number.POSITIVE_INFINITY,
): Promise<string> {
  const { key, secret } = await service.keys.createKey({ name }, user);
  const digests = digestsOf(secret, testPeppers).names;
  revocations.listen({ keyId: key!.id, digests, expiresAtMs } as KeyPrincipal, () => told.push(name));
  return key!.id;
}

test('connections are told of every end that was missed: deletion, rotation, an earlier expiry', async () => {
  const revocations = new Revocations({ keys: service.keys, clock: systemClock, logger: silentLogger });
  const told: string[] = [];
  const deleted = await heldKey(revocations, 'deleted', told);
  const rotated = await heldKey(revocations, 'rotated', told);
  const graced = await heldKey(revocations, 'graced', told);
  const expiring = await heldKey(revocations, 'expiring', told);
  await heldKey(revocations, 'lives', told);
  await service.keys.deleteKey({ keyId: deleted }, user);
  await service.keys.rotateKey({ keyId: rotated }, user);
  await service.keys.rotateKey({ keyId: graced, gracePeriod: { seconds: 60n } }, user);
  const expiresAt = timestampFromMs(Date.now() + 2_000);
  await service.keys.updateKey({ keyId: expiring, updateMask: { paths: ['expires_at'] }, expiresAt }, user);
  revocations.checkAll();
  await waitFor(() => told.length === 3, { description: 'three ends' });
  await revocations.close();
  expect(told.slice(0, 2).sort()).toEqual(['deleted', 'rotated']);
  expect(told[2]).toBe('expiring');
});

test('connections are told when their secret expires, even if Keys cannot be asked, but not if the expiry was postponed', async () => {
  const failing = { authenticate: () => Promise.reject(gatewayError(ErrorReason.OVERLOADED, 'Postgres is away.')) };
  const away = new Revocations({ keys: failing, clock: systemClock, logger: silentLogger });
  const revocations = new Revocations({ keys: service.keys, clock: systemClock, logger: silentLogger });
  const told: string[] = [];
  const expiresAtMs = Date.now() + 2_000;
  await heldKey(revocations, 'put off', told, expiresAtMs);
  await heldKey(away, 'expires', told, expiresAtMs + 1);
  await waitFor(() => told.length > 0, { description: 'the end of a key' });
  await Promise.all([away.close(), revocations.close()]);
  expect(told).toEqual(['expires']);
});

test('Keys is asked about a connection until it has answered, however often it could not', async () => {
  const told: string[] = [];
  let failures = 0;
  const failing: Pick<TestKeys['keys'], 'authenticate'> = {
    authenticate(...asked) {
      if (failures === 4) return service.keys.authenticate(...asked);
      failures += 1;
      return Promise.reject(gatewayError(ErrorReason.OVERLOADED, 'Postgres is away.'));
    },
  };
  const revocations = new Revocations({ keys: failing, clock: systemClock, logger: silentLogger });
  const ended = await heldKey(revocations, 'ended', told);
  await heldKey(revocations, 'lives', told);
  await service.keys.deleteKey({ keyId: ended }, user);
  revocations.checkAll();
  await waitFor(() => told.length > 0, { description: 'the end of a key' });
  await revocations.close();
  expect(told).toEqual(['ended']);
});

/** A Keys that notes by which secrets it was asked, and answers none of it until it fails at all. */
function askingInVain() {
  const asked: string[] = [];
  const answer = Promise.withResolvers<never>();
  const keys: Pick<TestKeys['keys'], 'authenticate'> = {
    authenticate({ digests }) {
      asked.push(digestName(digests![0] as KeyDigest));
      return answer.promise;
    },
  };
  return {
    revocations: new Revocations({ keys, clock: systemClock, logger: silentLogger }),
    asked,
    fail: () => answer.reject(gatewayError(ErrorReason.OVERLOADED, 'Postgres is away.')),
  };
}

test('Keys is asked no more about a connection that closed while it could not answer', async () => {
  const { revocations, asked, fail } = askingInVain();
  const listen = (digest: string) =>
    revocations.listen({ keyId: 'of a session', digests: [digest] as readonly string[] } as KeyPrincipal, () => {});
  const [closed, open] = ['1:Y2xvc2Vk', '1:b3Blbg=='];
  const stop = listen(closed);
  await waitFor(() => asked.length > 0, { description: 'Keys to be asked' });
  stop();
  fail();
  listen(open);
  await waitFor(() => asked.includes(open), { description: 'Keys to be asked again' });
  await revocations.close();
  expect(asked).toEqual([closed, open]);
});

test('a connection is checked soon although Keys leaves the question about another unanswered', async () => {
  const told: string[] = [];
  let isSilent = true;
  const frozen: Pick<TestKeys['keys'], 'authenticate'> = {
    authenticate(request, options) {
      if (!isSilent) return service.keys.authenticate(request, options);
      isSilent = false;
      return delay(options?.timeoutMs ?? unaryTimeoutMsDefault, undefined, { ref: false }).then(() => {
        throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'Keys is frozen.');
      });
    },
  };
  const revocations = new Revocations({ keys: frozen, clock: systemClock, logger: silentLogger });
  await heldKey(revocations, 'unanswered', told);
  await waitFor(() => !isSilent, { description: 'the question that is not answered' });
  const ended = await heldKey(revocations, 'ended', told);
  await service.keys.deleteKey({ keyId: ended }, user);
  await waitFor(() => told.length > 0, { description: 'the end of a key', timeoutMs: 3_000 });
  await revocations.close();
  expect(told).toEqual(['ended']);
});

test('a stop waits only for the questions to Keys that are under way', async () => {
  const { revocations, asked, fail } = askingInVain();
  for (let place = 0; place < 250; place += 1) {
    const digests: readonly string[] = [digestName({ pepperVersion: 1, digest: Buffer.from(`secret ${place}`) })];
    revocations.listen({ keyId: 'of a session', digests } as KeyPrincipal, () => {});
  }
  await waitFor(() => asked.length > 0, { description: 'Keys to be asked' });
  const underWay = asked.length;
  const closed = revocations.close();
  fail();
  await closed;
  expect(asked).toHaveLength(underWay);
});

test('connections are told what their key may do now if that was missed, and nothing older', async () => {
  const revocations = new Revocations({ keys: service.keys, clock: systemClock, logger: silentLogger });
  const { key, secret } = await service.keys.createKey({ name: 'constrained' }, user);
  const keyId = key!.id;
  const digests = digestsOf(secret, testPeppers).names;
  const caps: (bigint | undefined)[] = [];
  revocations.listen(
    { keyId, digests } as KeyPrincipal,
    () => {},
    ({ constraints }) => caps.push(constraints.spendCapNanoUsd),
  );
  await waitFor(() => caps.length === 1, { description: 'the first constraints' });
  await service.keys.updateKey({ keyId, updateMask: { paths: ['spend_cap_nano_usd'] }, spendCapNanoUsd: 5n }, user);
  revocations.checkAll();
  await waitFor(() => caps.length === 2, { description: 'the changed constraints' });
  const older = { expiresAtMs: Number.POSITIVE_INFINITY, constraints: { spendCapNanoUsd: 9n } } as KeyPrincipal;
  revocations.change(new Set(digests), older, 0n);
  await revocations.close();
  expect(caps).toEqual([undefined, 5n]);
});

test('connections are told what a restored database says, though it counts from an earlier version', async () => {
  const revocations = new Revocations({ keys: service.keys, clock: systemClock, logger: silentLogger });
  const { key, secret } = await service.keys.createKey({ name: 'restored' }, user);
  const principal = { keyId: key!.id, digests: digestsOf(secret, testPeppers).names } as KeyPrincipal;
  const told: KeyPrincipal[] = [];
  revocations.listen(
    principal,
    () => {},
    (changed) => told.push(changed),
  );
  await waitFor(() => told.length === 1, { description: 'the first constraints' });
  revocations.change(new Set(principal.digests), principal, 2n ** 63n);
  revocations.checkAll();
  await waitFor(() => told.length === 3, { description: 'those of the restored database' });
  await revocations.close();
  expect(told[1]).toBe(principal);
  expect(told[2]).toEqual(told[0]);
});
