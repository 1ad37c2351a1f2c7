import { fromBinary } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';

export type AuditRelayDeps = {
  /** Of the service whose outbox is relayed. */
  database: Pick<ServiceDatabase, 'service' | 'query'>;
  auth: Pick<Client<typeof AuthService>, 'recordAuditEvents'>;
  logger: Logger;
};

export type AuditRelay = {
  /** Hands on what waits; rejects when Auth or the database is out of reach, and nothing is lost. */
  drain(): Promise<void>;
  close(): Promise<void>;
};

const everyMs = 1_000;
const recordsMax = 1_000;
const timeoutMs = 5_000;

/**
 * Hands the audit events of a service's outbox on to Auth, oldest first. An event leaves the outbox only when Auth has stored
 * it; should the answer be lost it is sent again, and Auth records each id once. Several relays of one outbox do no harm.
 */
export function startAuditRelay({ database, auth, logger }: AuditRelayDeps): AuditRelay {
  const options = { contextValues: callerContext(serviceCaller(database.service)), timeoutMs };
  let running: Promise<void> | null = null;

  async function drainOnce(): Promise<void> {
    for (;;) {
      const { rows } = await database.query<{ id: string; record: Buffer }>({
        name: 'audit-outbox-next',
        text: `select id, record from audit_outbox order by id limit ${recordsMax}`,
        values: [],
      });
      if (rows.length === 0) return;
      await auth.recordAuditEvents(
        { records: rows.map(({ record }) => fromBinary(AuditRecordSchema, record)) },
        options,
      );
      await database.query({
        name: 'audit-outbox-done',
        text: 'delete from audit_outbox where id = any($1)',
        values: [rows.map(({ id }) => id)],
      });
    }
  }

  const drain = (): Promise<void> => {
    running ??= drainOnce().finally(() => {
      running = null;
    });
    return running;
  };
  const timer = setInterval(() => {
    drain().catch((err) => logger.warn({ err }, 'audit events could not be handed on; they wait in the outbox'));
  }, everyMs).unref();

  return {
    drain,
    async close() {
      clearInterval(timer);
      await running?.catch(() => {});
    },
  };
}
