import { fromBinary } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import { AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { showOutbox, type Waiting } from '#shared/outbox-metrics.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';
import { asService } from '#shared/rpc/caller.ts';

export type AuditRelayDeps = {
  /** The database of the service whose outbox is relayed. */
  database: Pick<ServiceDatabase, 'service' | 'query'>;
  auth: Pick<Client<typeof AuthService>, 'recordAuditEvents'>;
  logger: Logger;
};

type Row = { id: string; record: Buffer };

const everyMs = 1_000;
const recordsMax = 1_000;
/** The records of one call, well below what a service reads at once, 4 MiB. */
const bytesMax = 2 * 1024 * 1024;
const timeoutMs = 5_000;

/**
 * Hands the audit events of a service's outbox to Auth until it is closed, and shows on /metrics what is waiting. Several relays of one
 * outbox do no harm.
 */
export function startAuditRelay(deps: AuditRelayDeps & { registry: Registry }): RecurringWork {
  const { database, logger, registry } = deps;
  const { service } = database;
  showOutbox(registry, { service, outbox: 'audit_events', logger, read: () => auditEventsWaiting(database) });
  return startRecurringWork({
    name: `sending the audit events of ${service}`,
    everyMs,
    // Events that an earlier process left need Auth.
    firstAfterMs: everyMs,
    round: (signal) => relayAuditEvents(deps, signal),
    logger,
  });
}

async function auditEventsWaiting(database: AuditRelayDeps['database']): Promise<Waiting> {
  const { rows } = await database.query<{ count: bigint; oldest: string | null; refused: bigint }>({
    name: 'audit-outbox-waiting',
    text: `select count(*) filter (where refused_at is null), count(refused_at) as refused,
        (select id from audit_outbox where refused_at is null order by id limit 1) as oldest
      from audit_outbox`,
  });
  const { count, oldest, refused } = rows[0]!;
  // Ids are dated by the machine's clock.
  const oldestSeconds = oldest === null ? 0 : (Date.now() - uuidv7Ms(oldest)) / 1_000;
  return { count: Number(count), oldestSeconds, refused: Number(refused) };
}

/**
 * Hands waiting events to Auth, oldest first. An event leaves the outbox only when Auth has stored it; if the answer is lost it is sent
 * again, and Auth records each id once. Rejects when Auth or the database is out of reach; nothing is lost. An event that Auth will never
 * accept is set aside, so that it does not hold up others. Gives up once `signal` aborts.
 */
export async function relayAuditEvents(deps: AuditRelayDeps, signal?: AbortSignal): Promise<void> {
  while (signal?.aborted !== true) {
    const { rows } = await deps.database.query<Row>({
      name: 'audit-outbox-next',
      text: `
        select id, record from (
          select id, record, row_number() over oldest_first as place, sum(octet_length(record)) over oldest_first as bytes
          from (select * from audit_outbox where refused_at is null order by id limit ${recordsMax}) as waiting
          window oldest_first as (order by id)) as measured
        where place = 1 or bytes <= ${bytesMax} order by id`,
      values: [],
    });
    if (rows.length === 0) return;
    try {
      await handOn(deps, rows, signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      for (const row of rows) await handOnAlone(deps, row, signal);
    }
  }
}

async function handOn({ database, auth }: AuditRelayDeps, rows: readonly Row[], signal?: AbortSignal): Promise<void> {
  await auth.recordAuditEvents(
    { records: rows.map(({ record }) => fromBinary(AuditRecordSchema, record)) },
    { ...asService(database.service), timeoutMs, signal },
  );
  await database.query({
    name: 'audit-outbox-done',
    text: 'delete from audit_outbox where id = any($1)',
    values: [rows.map(({ id }) => id)],
  });
}

async function handOnAlone(deps: AuditRelayDeps, row: Row, signal?: AbortSignal): Promise<void> {
  try {
    await handOn(deps, [row], signal);
  } catch (err) {
    if (!isRefusal(err)) throw err;
    deps.logger.error(
      { err, eventId: row.id },
      'Auth refused an audit event for good: it stays in the outbox, and in no audit chain',
    );
    await deps.database.query({
      name: 'audit-outbox-aside',
      text: 'update audit_outbox set refused_at = clock_timestamp() where id = $1',
      values: [row.id],
    });
  }
}

const isRefusal = (error: unknown): boolean => hasReason(error, ErrorReason.INVALID_REQUEST);
