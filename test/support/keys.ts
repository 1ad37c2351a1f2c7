import { create } from '@bufbuild/protobuf';
import type { CallOptions, Client, ServiceImpl } from '@connectrpc/connect';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { type Clock, systemClock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import type { KeyPepper } from '#shared/env.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createLogger, type Logger } from '#shared/logger.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, Role, serviceCaller } from '#shared/rpc/caller.ts';
import { startKeys } from '../../services/keys/start.ts';
import { localClient } from './local-client.ts';

export const testPeppers: readonly KeyPepper[] = [{ version: 1, secret: 'a pepper for tests, long enough to be one' }];

export const silentLogger: Logger = createLogger({ level: 'silent', name: 'test' });

/** The part of Auth which takes audit events over. */
export type AuditTaker = Parameters<typeof startKeys>[0]['auth'];

/** Leaves the events in the outbox, where a test can read them. */
const noAuth: AuditTaker = { recordAuditEvents: () => Promise.reject(new Error('this test has no Auth')) };

export type TestKeys = {
  keys: Client<typeof KeysService>;
  implementation: ServiceImpl<typeof KeysService>;
} & AsyncDisposable;

/** A Keys process on a test's database, called through the local transport. */
export async function startTestKeys(
  connection: DatabaseUrl,
  options: { clock?: Clock; peppers?: readonly KeyPepper[]; auth?: AuditTaker; heartbeatMs?: number } = {},
): Promise<TestKeys> {
  const { clock = systemClock, peppers = testPeppers, auth = noAuth, heartbeatMs } = options;
  const { implementation, close } = await startKeys({
    connection,
    peppers,
    auth,
    clock,
    logger: silentLogger,
    ...(heartbeatMs !== undefined && { heartbeatMs }),
  });
  return {
    keys: localClient(KeysService, implementation, silentLogger),
    implementation,
    [Symbol.asyncDispose]: close,
  };
}

/** Somebody signed in; each call makes another user of another organization unless told otherwise. */
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

/** Call options on somebody's behalf. */
export const as = (caller: Caller): CallOptions => ({ contextValues: callerContext(caller) });

/** Call options of a service that acts for itself. */
export const asService = (name: string): CallOptions => as(serviceCaller(name));
