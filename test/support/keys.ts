import { create, fromBinary } from '@bufbuild/protobuf';
import type { CallOptions, Client, ServiceImpl } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { type AuditActorType, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { type Clock, systemClock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyDigest } from '#shared/key-secret.ts';
import type { Logger } from '#shared/logger.ts';
import { asService, type Caller, CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { startKeys } from '../../services/keys/start.ts';
import { localClient } from './local-client.ts';
import { ManualClock } from './manual-clock.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';
import { silentLogger } from './silent-logger.ts';

export const testPeppers: readonly KeyPepper[] = [{ version: 1, secret: 'a pepper for tests, long enough to be one' }];

/** The part of Auth that takes over audit events. */
type AuditTaker = Parameters<typeof startKeys>[0]['auth'];

/** Leaves the events in the outbox, where a test can read them. */
const noAuth: AuditTaker = { recordAuditEvents: () => Promise.reject(new Error('this test has no Auth')) };

export type TestKeys = {
  keys: Client<typeof KeysService>;
  implementation: ServiceImpl<typeof KeysService>;
} & AsyncDisposable;

/** A Keys process on a test's database, called through the local transport. */
export async function startTestKeys(
  connection: DatabaseUrl,
  options: {
    clock?: Clock;
    peppers?: readonly KeyPepper[];
    auth?: AuditTaker;
    heartbeatMs?: number;
    logger?: Logger;
  } = {},
): Promise<TestKeys> {
  const { clock = systemClock, peppers = testPeppers, auth = noAuth, heartbeatMs, logger = silentLogger } = options;
  const { implementation, close } = await startKeys({
    connection,
    peppers,
    auth,
    clock,
    logger,
    registry: new Registry(),
    ...(heartbeatMs !== undefined && { heartbeatMs }),
  });
  return {
    keys: localClient(KeysService, implementation, silentLogger),
    implementation,
    [Symbol.asyncDispose]: close,
  };
}

/** Someone signed in; each call makes a new user of a new organization unless told otherwise. */
export const sessionOf = (fields: Partial<Pick<Caller, 'tenantId' | 'userId' | 'role' | 'operator'>> = {}): Caller =>
  create(CallerSchema, {
    kind: CallerKind.SESSION,
    tenantId: uuidv7(),
    userId: uuidv7(),
    sessionId: uuidv7(),
    role: Role.MEMBER,
    ip: '192.0.2.1',
    requestId: 'req_test',
    ...fields,
  });

/** Call options on someone's behalf. */
export const as = (caller: Caller): CallOptions => ({ contextValues: callerContext(caller) });

/** The digests with which an edge asks whose secret this is: one for each pepper. */
export const digestsOf = (secret: string, peppers = testPeppers) =>
  peppers.map((pepper) => ({ pepperVersion: pepper.version, digest: keyDigest(secret, pepper) }));

/** The reason of a failed call. */
export const reasonOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'it succeeded',
    (error) => error.reason,
  );

export type KeysBench = AsyncDisposable & {
  keys: TestKeys['keys'];
  /** Starts at `startMs`; Keys and its database follow it. */
  clock: ManualClock;
  startMs: number;
  database: TestDatabase;
  /** The database as Keys reaches it. */
  service: ServiceDatabase;
  /** The rows of a query as Keys may make it. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read rows of every shape; the assertions are the types.
  rows(text: string, values?: unknown[]): Promise<any[]>;
  /** Whose a secret is, as an edge is told; undefined if nobody's. */
  authenticate(secret: string): Promise<Awaited<ReturnType<TestKeys['keys']['authenticate']>>['principal']>;
  /** The events about a key or organization that wait in the outbox for Auth, oldest first. */
  auditEvents(targetId: string): Promise<TestAuditEvent[]>;
};

// biome-ignore lint/suspicious/noExplicitAny: tests read changes of every shape; the assertions are the types.
type TestAuditEvent = { type: string; tenantId: string; actor: AuditActorType; before: any; after: any };

/** A Keys process with a manually set clock, on a database of its own. */
export async function startKeysBench(): Promise<KeysBench> {
  const startMs = Date.parse('2026-06-01T12:00:00Z');
  const clock = new ManualClock(startMs);
  const database = await createTestDatabase();
  const service = await openServiceDatabase({
    service: 'keys',
    connection: database.url,
    entities: [],
    logger: silentLogger,
  });
  const started = await startTestKeys(database.url, { clock });
  const { keys } = started;
  const rows: KeysBench['rows'] = async (text, values = []) => (await service.query({ text, values })).rows;
  return {
    keys,
    clock,
    startMs,
    database,
    service,
    rows,
    authenticate: async (secret) =>
      (await keys.authenticate({ digests: digestsOf(secret) }, asService('edge'))).principal,
    async auditEvents(targetId) {
      return (await rows('select record from audit_outbox order by id'))
        .map(({ record }) => fromBinary(AuditRecordSchema, record))
        .filter(({ target }) => target!.id === targetId)
        .map(({ type, tenantId, beforeJson, afterJson, actor }) => ({
          type,
          tenantId,
          actor: actor!.type,
          before: beforeJson === '' ? null : JSON.parse(beforeJson),
          after: afterJson === '' ? null : JSON.parse(afterJson),
        }));
    },
    async [Symbol.asyncDispose]() {
      await started[Symbol.asyncDispose]();
      await service.close();
      await database.drop();
    },
  };
}
