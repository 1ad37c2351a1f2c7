import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { startAuditRelay } from '#shared/audit-outbox/relay.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { openLeasedFeed } from '#shared/leased-feed/leased-feed.ts';
import type { Logger } from '#shared/logger.ts';
import { heartbeatMs as feedHeartbeatMs } from '#shared/rpc/follow-stream.ts';
import { createDigestLookUp } from './authentication/digest-look-up.ts';
import { DigestEntity } from './db/digest.entity.ts';
import { KeyEntity } from './db/key.entity.ts';
import { checkPeppers, tellOfOtherPeppers } from './db/peppers.ts';
import { keyEvents } from './feed/key-events.ts';
import { openLeaseKeeper } from './feed/lease-keeper.ts';
import { keysService } from './index.ts';
import { startHousekeeping } from './workers/housekeeping.ts';

type StartedKeys = {
  implementation: ServiceImpl<typeof KeysService>;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  /** Ends the feed, the recurring work and the database connections; calls in flight should have ended. */
  close(): Promise<void>;
};

/** Opens Keys on a migrated database. */
export async function startKeys(options: {
  connection: DatabaseUrl;
  peppers: readonly KeyPepper[];
  /** Receives the audit events. */
  auth: Pick<Client<typeof AuthService>, 'recordAuditEvents'>;
  clock: Clock;
  logger: Logger;
  registry: Registry;
  /** How often the feed sends a heartbeat when nothing happens, in milliseconds. */
  heartbeatMs?: number;
}): Promise<StartedKeys> {
  const { connection, peppers, auth, clock, logger, registry, heartbeatMs = feedHeartbeatMs } = options;
  const entities = [KeyEntity, DigestEntity];
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const database = await openServiceDatabase({ service: 'keys', connection, entities, logger });
  opened.defer(() => database.close());
  await patiently(() => checkPeppers(database, peppers));
  await tellOfOtherPeppers(database, peppers, logger);
  const leases = await openLeaseKeeper({ database, clock, logger, beatMs: heartbeatMs });
  opened.defer(() => leases.close());
  const source = keyEvents(database);
  const feed = await openLeasedFeed({ database, connection, source, keeper: leases, logger, heartbeatMs });
  opened.defer(() => feed.close());
  const digestLookUp = createDigestLookUp(database);
  const auditRelay = startAuditRelay({ database, auth, logger, registry });
  opened.defer(() => auditRelay.close());
  const housekeeping = startHousekeeping({ database, clock, logger });
  opened.defer(() => housekeeping.close());
  const closing = opened.move();
  return {
    implementation: keysService({ database, feed, leases, digestLookUp, peppers, clock }),
    stop: () => auditRelay.close(),
    close: () => closing.disposeAsync(),
  };
}
