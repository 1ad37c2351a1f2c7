import { afterAll, beforeAll, expect, test } from 'vitest';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { sessionOf, silentLogger } from '../../../test/support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { AuditEvent } from './audit-event.ts';
import { recordAuditEvent } from './record-audit-event.ts';
import { type AuditRelayDeps, startAuditRelay } from './relay.ts';

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

const event = (): AuditEvent => ({
  id: uuidv7(),
  tenantId: uuidv7(),
  type: 'api_key_created',
  occurredAtMs: 1_780_000_000_000,
  caller: sessionOf(),
  target: { type: 'api_key', id: uuidv7() },
  after: { name: 'a key' },
});

const waiting = async (): Promise<number> =>
  (await database.query({ text: 'select id from audit_outbox', values: [] })).rows.length;

/** Auth as far as the relay sees it: it keeps each id once, and fails while it is told to. */
function unreliableAuth() {
  const stored = new Map<string, string>();
  const state: { failure: 'before storing' | 'after storing' | null } = { failure: null };
  const auth = {
    recordAuditEvents: async ({ records }: { records?: { id?: string; type?: string }[] }) => {
      if (state.failure === 'before storing') throw new Error('Auth is out of reach');
      for (const { id, type } of records ?? []) stored.set(id!, type!);
      if (state.failure === 'after storing') throw new Error('the answer was lost');
      return {};
    },
  } as unknown as AuditRelayDeps['auth'];
  return { auth, stored, state };
}

test('events reach Auth however often it fails, and leave the outbox only then', async () => {
  const events = Array.from({ length: 3 }, event);
  for (const one of events) await transaction(database, (em) => recordAuditEvent(em, one));
  const { auth, stored, state } = unreliableAuth();
  const relay = startAuditRelay({ database, auth, logger: silentLogger });
  state.failure = 'before storing';
  await expect(relay.drain()).rejects.toThrow('out of reach');
  expect(await waiting()).toBe(3);
  state.failure = 'after storing';
  await expect(relay.drain()).rejects.toThrow('lost');
  expect(await waiting()).toBe(3);
  state.failure = null;
  await relay.drain();
  expect(await waiting()).toBe(0);
  expect([...stored.keys()].sort()).toEqual(events.map(({ id }) => id).sort());
  await relay.close();
});

test('a change that is undone leaves no event', async () => {
  const undone = transaction(database, async (em) => {
    await recordAuditEvent(em, event());
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  expect(await waiting()).toBe(0);
});

test('more events than one call takes are handed on in the order in which they happened', async () => {
  const { auth, stored } = unreliableAuth();
  const events = Array.from({ length: 1_200 }, event);
  await transaction(database, async (em) => {
    for (const one of events) await recordAuditEvent(em, one);
  });
  const relay = startAuditRelay({ database, auth, logger: silentLogger });
  await relay.drain();
  expect([...stored.keys()]).toEqual(events.map(({ id }) => id).sort());
  await relay.close();
});
