import { create } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type AuditActorType,
  type AuditEvent,
  AuditEventSchema,
  type ListAuditEventsRequest,
} from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { PageRows } from '#shared/page.ts';
import { platformChain, type StoredEvent, storedId } from '../domain/audit-chain.ts';

export type EventRow = {
  tenant_id: string;
  sequence: bigint;
  id: string;
  type: string;
  occurred_at: Date;
  actor_type: AuditActorType;
  actor_id: string;
  actor_ip: string;
  target_type: string;
  target_id: string;
  before_json: string;
  after_json: string;
  request_id: string;
  previous_hash: Buffer;
  hash: Buffer;
};

/** As many events as are read and sorted in a fraction of a second. */
const readAtOnceMax = 100_000;
/** As many as are read and sorted sooner than a page of them is found among millions. */
const fewMax = 10_000;

type AuditFilter = Omit<ListAuditEventsRequest, '$typeName' | '$unknown' | 'page'>;

/** One page of events, newest first: of one organization, or of all chains. */
export async function pageOfAuditEvents(
  database: ServiceDatabase,
  filter: AuditFilter & { tenantId: string | null },
  { limit, offset }: PageRows,
): Promise<{ events: AuditEvent[]; total: number }> {
  const { tenantId } = filter;
  const { conditions, values } = conditionsOf(filter);
  const isNarrowed = conditions.length > (tenantId === null ? 0 : 1);
  const total = isNarrowed
    ? await count(database, `count(*) as total from audit_events where ${conditions.join(' and ')}`, values)
    : await count(
        database,
        `coalesce(sum(sequence), 0)::bigint as total from audit_heads ${whereOf(conditions)}`,
        values,
      );
  if (total <= offset) return { events: [], total };
  // From the newest on, the events before a moment come after many others, and a few of all chains are far apart.
  const atOnceMax = filter.occurredBefore !== undefined ? readAtOnceMax : tenantId === null ? fewMax : 0;
  const text = isNarrowed
    ? narrowedPage(conditions, { tenantId, limit, offset, isReadAtOnce: total <= atOnceMax })
    : wholePage(conditions, { tenantId, limit, offset, total });
  const { rows } = await database.query<EventRow>({ text, values });
  return { events: rows.map(eventMessage), total };
}

type Place = { tenantId: string | null; limit: number; offset: number };

const orderOf = (tenantId: string | null): string => (tenantId === null ? 'id desc' : 'sequence desc');

/** `isReadAtOnce`: all that are found are read and sorted, instead of looking for them among all events from the newest on. */
function narrowedPage(
  conditions: readonly string[],
  { tenantId, limit, offset, isReadAtOnce }: Place & { isReadAtOnce: boolean },
): string {
  const found = `audit_events ${whereOf(conditions)}`;
  const source = isReadAtOnce ? `(select * from ${found} offset 0) as read` : found;
  return `select * from ${source} order by ${orderOf(tenantId)} limit ${limit} offset ${offset}`;
}

/** A chain has no gaps, so each of its pages is found at once; those of all chains by an index alone. */
function wholePage(
  conditions: readonly string[],
  { tenantId, limit, offset, total }: Place & { total: number },
): string {
  const inPage =
    tenantId === null
      ? `id in (select id from audit_events order by id desc limit ${limit} offset ${offset})`
      : `sequence <= ${total - offset}`;
  return `select * from audit_events ${whereOf([...conditions, inPage])} order by ${orderOf(tenantId)} limit ${limit}`;
}

const whereOf = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`;

async function count(database: ServiceDatabase, what: string, values: unknown[]): Promise<number> {
  const { rows } = await database.query<{ total: bigint }>({ text: `select ${what}`, values });
  return Number(rows[0]!.total);
}

function conditionsOf(filter: AuditFilter & { tenantId: string | null }): { conditions: string[]; values: unknown[] } {
  const conditions: string[] = [];
  const values: unknown[] = [];
  const add = (column: string, operator: '=' | '>=' | '<', value: unknown): void => {
    values.push(value);
    conditions.push(`${column} ${operator} $${values.length}`);
  };
  if (filter.tenantId !== null) add('tenant_id', '=', filter.tenantId);
  if (filter.type !== '') add('type', '=', filter.type);
  if (filter.actorId !== '') add('actor_id', '=', storedId(filter.actorId));
  if (filter.targetId !== '') add('target_id', '=', storedId(filter.targetId));
  if (filter.occurredFrom !== undefined) add('occurred_at', '>=', timestampDate(filter.occurredFrom));
  if (filter.sequence !== 0n) add('sequence', '=', filter.sequence);
  if (filter.occurredBefore !== undefined) add('occurred_at', '<', timestampDate(filter.occurredBefore));
  return { conditions, values };
}

const eventMessage = (row: EventRow): AuditEvent =>
  create(AuditEventSchema, {
    record: {
      id: row.id,
      tenantId: row.tenant_id === platformChain ? '' : row.tenant_id,
      type: row.type,
      occurredAt: timestampFromDate(row.occurred_at),
      actor: { type: row.actor_type, id: row.actor_id, ip: row.actor_ip },
      target: { type: row.target_type, id: row.target_id },
      beforeJson: row.before_json,
      afterJson: row.after_json,
      requestId: row.request_id,
    },
    sequence: row.sequence,
    previousHash: row.previous_hash,
    hash: row.hash,
  });

/** A row in the form that was hashed. */
export const storedEvent = (row: EventRow): StoredEvent => ({
  tenantId: row.tenant_id,
  sequence: row.sequence,
  id: row.id,
  type: row.type,
  occurredAtMs: row.occurred_at.getTime(),
  actorType: row.actor_type,
  actorId: row.actor_id,
  actorIp: row.actor_ip,
  targetType: row.target_type,
  targetId: row.target_id,
  beforeJson: row.before_json,
  afterJson: row.after_json,
  requestId: row.request_id,
  previousHash: row.previous_hash,
  hash: row.hash,
});
