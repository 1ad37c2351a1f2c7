import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { auditActor } from '#shared/audit-outbox/audit-event.ts';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import type { Clock } from '#shared/clock.ts';
import { isUuid, uuidv7 } from '#shared/ids.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { type ChainedEvent, emptyHash, eventHash, platformChain } from './domain/audit-chain.ts';

/** What Auth itself says about a change; the rest comes from the caller. */
export type Audited = {
  /** Recorded only once under this id. */
  id?: string;
  /** The organization whose chain it joins; null: the platform's own. */
  tenantId: string | null;
  type: AuditEventType;
  actor: AuditActor;
  target: { type: string; id: string };
  /** The changed fields, spelled as in the public API. Never a secret. */
  before?: Readonly<Record<string, unknown>>;
  after?: Readonly<Record<string, unknown>>;
};

export type AuditActor = { type: AuditActorType; id: string; ip: string; requestId: string };

/** The actor behind a caller, and the request in which they act. */
export const actorOf = (caller: Caller, asOperator = false): AuditActor => ({
  ...auditActor(caller, asOperator),
  requestId: caller.requestId,
});

/** A user who acts without a session: a login, an accepted invitation, a reset password. */
export const userActor = (userId: string, caller: Caller): AuditActor => ({
  type: AuditActorType.USER,
  id: userId,
  ip: caller.ip,
  requestId: caller.requestId,
});

/** Appends an event in the transaction of the change. The head of its chain is locked until the commit, so call this late. */
export function recordAudit(em: SqlEntityManager, clock: Clock, audited: Audited): Promise<void> {
  const { actor, target } = audited;
  return appendToChains(em, [
    {
      tenantId: audited.tenantId ?? platformChain,
      id: audited.id ?? uuidv7(),
      type: audited.type,
      occurredAtMs: clock.now(),
      actorType: actor.type,
      actorId: actor.id,
      actorIp: actor.ip,
      targetType: target.type,
      targetId: target.id,
      beforeJson: audited.before === undefined ? '' : JSON.stringify(audited.before),
      afterJson: audited.after === undefined ? '' : JSON.stringify(audited.after),
      requestId: actor.requestId,
    },
  ]);
}

/** Appends events, each to its organization's chain, in the given order; ids that a chain already has are skipped. */
export async function appendToChains(
  em: SqlEntityManager,
  events: readonly Omit<ChainedEvent, 'sequence'>[],
): Promise<void> {
  const chains = Map.groupBy(events.map(asStored), (event) => event.tenantId);
  // Always in the same order, so that two batches cannot deadlock.
  for (const tenantId of [...chains.keys()].sort()) await appendToChain(em, tenantId, chains.get(tenantId)!);
}

/** The event with its ids spelled as Postgres stores them, since the chain hashes what is stored. */
const asStored = (event: Omit<ChainedEvent, 'sequence'>): Omit<ChainedEvent, 'sequence'> => ({
  ...event,
  tenantId: event.tenantId.toLowerCase(),
  id: event.id.toLowerCase(),
  // The names of models and plans stay as they are.
  targetId: isUuid(event.targetId) ? event.targetId.toLowerCase() : event.targetId,
});

async function appendToChain(
  em: SqlEntityManager,
  tenantId: string,
  events: readonly Omit<ChainedEvent, 'sequence'>[],
): Promise<void> {
  await em.execute(
    `insert into audit_heads (tenant_id, sequence, hash) values (?, 0, '') on conflict (tenant_id) do nothing`,
    [tenantId],
  );
  const [head] = await em.execute<{ sequence: string; hash: Buffer }[]>(
    'select sequence, hash from audit_heads where tenant_id = ? for update',
    [tenantId],
  );
  const ids = events.map((event) => event.id);
  const known = await em.execute<{ id: string }[]>(
    'select id from audit_events where tenant_id = ? and id in (select json_array_elements_text(?::json)::uuid)',
    [tenantId, JSON.stringify(ids)],
  );
  const seen = new Set(known.map(({ id }) => id));
  let sequence = BigInt(head!.sequence);
  let hash: Buffer = sequence === 0n ? emptyHash : head!.hash;
  const rows: object[] = [];
  for (const event of events) {
    if (seen.has(event.id)) continue;
    seen.add(event.id);
    sequence += 1n;
    const chained = { ...event, sequence };
    const previousHash = hash;
    hash = eventHash(previousHash, chained);
    rows.push(rowOf(chained, previousHash, hash));
  }
  if (rows.length === 0) return;
  // One statement for all: while it runs the head is locked, and everybody else's change waits.
  await em.execute(insertEvents, [JSON.stringify(rows)]);
  await em.execute('update audit_heads set sequence = ?, hash = ? where tenant_id = ?', [
    String(sequence),
    hash,
    tenantId,
  ]);
}

const rowOf = (event: ChainedEvent, previousHash: Buffer, hash: Buffer): object => ({
  tenant_id: event.tenantId,
  sequence: event.sequence.toString(),
  id: event.id,
  type: event.type,
  occurred_at: new Date(event.occurredAtMs),
  actor_type: event.actorType,
  actor_id: event.actorId,
  actor_ip: event.actorIp,
  target_type: event.targetType,
  target_id: event.targetId,
  before_json: event.beforeJson,
  after_json: event.afterJson,
  request_id: event.requestId,
  previous_hash: `\\x${previousHash.toString('hex')}`,
  hash: `\\x${hash.toString('hex')}`,
});

const insertEvents = 'insert into audit_events select * from json_populate_recordset(null::audit_events, ?::json)';
