import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyDigest } from '#shared/key-secret.ts';
import { as, asService, sessionOf, startTestKeys, type TestKeys, testPeppers } from '../../test/support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../../test/support/postgres.ts';

let database: TestDatabase;
let started: TestKeys;

beforeAll(async () => {
  database = await createTestDatabase();
  started = await startTestKeys(database.url);
});

afterAll(async () => {
  await started[Symbol.asyncDispose]();
  await database.drop();
});

const digestsOf = (secret: string) =>
  testPeppers.map((pepper) => ({ pepperVersion: pepper.version, digest: keyDigest(secret, pepper) }));

test('a created key authenticates until it is deleted', async () => {
  const { keys } = started;
  const user = as(sessionOf());
  const { key, secret } = await keys.createKey({ name: 'first' }, user);
  const found = await keys.authenticate({ digests: digestsOf(secret) }, asService('edge'));
  expect(found.principal?.keyId).toBe(key!.id);
  expect((await keys.listKeys({}, user)).keys).toHaveLength(1);
  await keys.deleteKey({ keyId: key!.id }, user);
  expect((await keys.authenticate({ digests: digestsOf(secret) }, asService('edge'))).principal).toBeUndefined();
  expect((await keys.listKeys({}, user)).keys).toHaveLength(0);
});
