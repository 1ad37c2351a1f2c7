import { create, toBinary } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecordAuditEventsRequestSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { sessionOf } from '../../../test/support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { AuditEvent } from './audit-event.ts';
import { recordAuditEvent } from './record-audit-event.ts';
import { type AuditRelayDeps, relayAuditEvents, startAuditRelay } from './relay.ts';

let testDatabase: TestDatabase;
let database: ServiceDatabase;
let billing: ServiceDatabase;

const open = (service: string) =>
  openServiceDatabase({ service, connection: testDatabase.url, entities: [], logger: silentLogger });
beforeAll(async () => {
  testDatabase = await createTestDatabase();
  [database, billing] = [await open('keys'), await open('billing')];
});
afterAll(async () => {
  await Promise.all([database.close(), billing.close()]);
  await testDatabase.drop();
});

const event = (fields: Partial<AuditEvent> = {}): AuditEvent => ({
  tenantId: uuidv7(),
  type: 'api_key_created',
  occurredAtMs: 1_780_000_000_000,
  caller: sessionOf(),
  target: { type: 'api_key', id: uuidv7() },
  after: { name: 'a key' },
  ...fields,
});

/** The ids of the events in the outbox, oldest first. */
const waiting = async (): Promise<string[]> => {
  const { rows } = await database.query<{ id: string }>({
    text: 'select id from audit_outbox order by id',
    values: [],
  });
  return rows.map(({ id }) => id);
};

/** Auth as far as the relay sees it: it keeps each id once, and fails while told to. */
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

const record = (events: readonly AuditEvent[]): Promise<void> =>
  transaction(database, async (em) => {
    for (const one of events) await recordAuditEvent(em, one);
  });

test('events reach Auth however often it fails, and leave the outbox only then', async () => {
  const events = Array.from({ length: 3 }, () => event());
  for (const one of events) await transaction(database, (em) => recordAuditEvent(em, one));
  const { auth, stored, state } = unreliableAuth();
  const relay = { database, auth, logger: silentLogger };
  state.failure = 'before storing';
  await expect(relayAuditEvents(relay)).rejects.toThrow('out of reach');
  const ids = await waiting();
  expect(new Set(ids).size).toBe(3);
  state.failure = 'after storing';
  await expect(relayAuditEvents(relay)).rejects.toThrow('lost');
  expect(await waiting()).toEqual(ids);
  state.failure = null;
  await relayAuditEvents(relay);
  expect(await waiting()).toEqual([]);
  expect([...stored.keys()].sort()).toEqual(ids);
});

test('a change that is rolled back leaves no event', async () => {
  const undone = transaction(database, async (em) => {
    await recordAuditEvent(em, event());
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  expect(await waiting()).toEqual([]);
});

test('more events than one call takes are passed on in the order in which they happened', async () => {
  const { auth, stored } = unreliableAuth();
  const events = Array.from({ length: 1_200 }, () => event());
  await record(events);
  const ids = await waiting();
  const relay = { database, auth, logger: silentLogger };
  await relayAuditEvents(relay);
  expect([...stored.keys()]).toEqual(ids);
});

test('/metrics shows what waits, for each service of a process', async () => {
  const { auth, state } = unreliableAuth();
  state.failure = 'before storing';
  const registry = new Registry();
  const relays = [database, billing].map((of) =>
    startAuditRelay({ database: of, auth, logger: silentLogger, registry }),
  );
  await record([event(), event()]);
  const metrics = await registry.metrics();
  expect(metrics).toMatch(/^gateway_outbox_waiting\{service="keys",outbox="audit_events"\} 2$/m);
  expect(metrics).toMatch(/^gateway_outbox_waiting\{service="billing",outbox="audit_events"\} 0$/m);
  expect(metrics).toMatch(/^gateway_outbox_oldest_seconds\{service="billing",outbox="audit_events"\} 0$/m);
  expect(metrics).toMatch(/^gateway_outbox_oldest_seconds\{service="keys",outbox="audit_events"\} 0\.\d+$/m);
  await Promise.all(relays.map((relay) => relay.close()));
  await database.query({ text: 'delete from audit_outbox', values: [] });
});

test('events left in the outbox cause no warning at the next start, although Auth starts after the relay', async () => {
  const { auth, state, stored } = unreliableAuth();
  state.failure = 'before storing';
  await record([event()]);
  const warnings: unknown[] = [];
  const logger = { ...silentLogger, warn: (...line: unknown[]) => void warnings.push(line) } as unknown as Logger;
  const relay = startAuditRelay({ database, auth, logger, registry: new Registry() });
  // As long as the relay's query would take, and longer.
  await waiting();
  await waiting();
  state.failure = null;
  await waitFor(() => stored.size === 1, { description: 'the event to be handed on' });
  await relay.close();
  expect(warnings).toEqual([]);
});

test('a stop waits for no answer of an Auth that has gone silent', async () => {
  await record([event()]);
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const auth = {
    recordAuditEvents: (_: unknown, { signal }: { signal?: AbortSignal }) =>
      new Promise((_answer, fail) => {
        signal?.addEventListener('abort', () => fail(signal.reason));
        ask();
      }),
  } as unknown as AuditRelayDeps['auth'];
  const relay = startAuditRelay({ database, auth, logger: silentLogger, registry: new Registry() });
  relay.wake();
  await asked;
  await relay.close();
  expect(await waiting()).toHaveLength(1);
  await relayAuditEvents({ database, auth: unreliableAuth().auth, logger: silentLogger });
});

test('an event that Auth refuses permanently is set aside and counted on /metrics, and the others go on', async () => {
  const { auth, stored } = unreliableAuth();
  const events = Array.from({ length: 3 }, () => event());
  await record(events);
  const ids = await waiting();
  const [, refused] = ids;
  const strict: AuditRelayDeps['auth'] = {
    recordAuditEvents: async (request, options) => {
      if (request.records!.some(({ id }) => id === refused)) throw invalidRequest('after_json', 'Too long.');
      return auth.recordAuditEvents(request, options);
    },
  };
  const relay = { database, auth: strict, logger: silentLogger };
  await relayAuditEvents(relay);
  expect([...stored.keys()].sort()).toEqual(ids.filter((id) => id !== refused));
  expect(await waiting()).toEqual([refused]);
  const registry = new Registry();
  const started = startAuditRelay({ ...relay, registry });
  const metrics = await registry.metrics();
  await started.close();
  expect(metrics).toMatch(/^gateway_outbox_refused\{service="keys",outbox="audit_events"\} 1$/m);
  expect(metrics).toMatch(/^gateway_outbox_waiting\{service="keys",outbox="audit_events"\} 0$/m);
  await database.query({ text: 'delete from audit_outbox', values: [] });
});

test('no call carries more than a service reads at once, however long the records are', async () => {
  const { auth, stored } = unreliableAuth();
  const long = { name: 'n'.repeat(200_000) };
  const events = Array.from({ length: 40 }, () => event({ before: long, after: long }));
  await record(events);
  const bytes: number[] = [];
  const measuring: AuditRelayDeps['auth'] = {
    recordAuditEvents: async (request, options) => {
      bytes.push(toBinary(RecordAuditEventsRequestSchema, create(RecordAuditEventsRequestSchema, request)).length);
      return auth.recordAuditEvents(request, options);
    },
  };
  const relay = { database, auth: measuring, logger: silentLogger };
  await relayAuditEvents(relay);
  expect(stored.size).toBe(40);
  expect(Math.max(...bytes)).toBeLessThan(4 * 1024 * 1024);
});

test('a change whose record Auth would refuse is itself refused, naming the field', async () => {
  const models = Array.from({ length: 1_000 }, (_, index) => `${index}`.padEnd(255, 'ü'));
  const refused = record([event({ after: { name: 'a key', model_allowlist: models } })]);
  await expect(refused).rejects.toMatchObject({
    reason: ErrorReason.INVALID_REQUEST,
    details: { param: 'model_allowlist' },
  });
  expect(await waiting()).toEqual([]);
});

test('existing data never prevents a change, however long it is', async () => {
  const { auth, stored } = unreliableAuth();
  await record([event({ before: { model_allowlist: 'm'.repeat(300_000) }, after: undefined })]);
  const relay = { database, auth, logger: silentLogger };
  await relayAuditEvents(relay);
  expect(stored.size).toBe(1);
});
