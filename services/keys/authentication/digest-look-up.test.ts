import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { KeyDigestSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { createDigestLookUp } from './digest-look-up.ts';

let testDatabase: TestDatabase;
let database: ServiceDatabase;
beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await openServiceDatabase({
    service: 'keys',
    connection: testDatabase.url,
    entities: [],
    logger: silentLogger,
  });
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

const nobodysDigests = () => [create(KeyDigestSchema, { pepperVersion: 1, digest: randomBytes(32) })];

/** A look-up, and how many queries it has sent. */
function counted() {
  const sent = { queries: 0 };
  const query: ServiceDatabase['query'] = (statement) => {
    sent.queries += 1;
    return database.query(statement);
  };
  return { sent, lookUp: createDigestLookUp({ query }) };
}

test('nonexistent digests cost at most one query per 20 ms, however many and however fast they come', async () => {
  for (const atOnce of [2, 30, 400]) {
    const { sent, lookUp } = counted();
    const startedMs = performance.now();
    let asked = 0;
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 10; count += 1) {
        expect((await lookUp(nobodysDigests())).row).toBeNull();
        asked += 1;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, caller));
    expect(asked).toBe(atOnce * 10);
    expect(sent.queries).toBeLessThanOrEqual(asked / 2);
    // A timer may be a millisecond early.
    expect(sent.queries).toBeLessThanOrEqual((performance.now() - startedMs) / 19 + 1);
  }
});

test('more than fit into one query do not wait, and every caller gets its own answer', async () => {
  const { sent, lookUp } = counted();
  const answers = await Promise.all(Array.from({ length: 2_500 }, () => lookUp(nobodysDigests())));
  expect(answers.every(({ row, version }) => row === null && version > 0n)).toBe(true);
  expect(sent.queries).toBe(3);
});

test('a request after a pause waits for nobody', async () => {
  const { sent, lookUp } = counted();
  await lookUp(nobodysDigests());
  await new Promise((resolve) => setTimeout(resolve, 25));
  const answer = lookUp(nobodysDigests());
  // The query is sent before any timer can fire.
  await Promise.resolve();
  expect(sent.queries).toBe(2);
  await answer;
});
