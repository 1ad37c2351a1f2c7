import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { auditActor } from '#shared/audit-outbox/audit-event.ts';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { type ChainedEvent, emptyHash, eventHash, platformChain, storedId } from './domain/audit-chain.ts';

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

/** Appends events in the transaction of the change. The heads of their chains are locked until the commit, so call this late, and once. */
export function recordAudit(em: SqlEntityManager, clock: Clock, ...audited: readonly Audited[]): Promise<void> {
  const occurredAtMs = clock.now();
  return appendToChains(
    em,
    audited.map(({ id = uuidv7(), tenantId, type, actor, target, before, after }) => ({
      tenantId: tenantId ?? platformChain,
      id,
      type,
      occurredAtMs,
      actorType: actor.type,
      actorId: actor.id,
      actorIp: actor.ip,
      targetType: target.type,
      targetId: target.id,
      beforeJson: before === undefined ? '' : JSON.stringify(before),
      afterJson: after === undefined ? '' : JSON.stringify(after),
      requestId: actor.requestId,
    })),
  );
}

/**
 * Appends events, each to its organization's chain, in the given order; ids that a chain already has are skipped. It takes as many statements
 * for a thousand chains as for one: while it runs their heads are locked, and everybody else's change waits.
 */
export async function appendToChains(
  em: SqlEntityManager,
  events: readonly Omit<ChainedEvent, 'sequence'>[],
): Promise<void> {
  if (events.length === 0) return;
  const chains = Map.groupBy(events.map(asStored), (event) => event.tenantId);
  const tenantIds = JSON.stringify([...chains.keys()]);
  // Always in the same order, so that two batches cannot deadlock.
  await em.execute(
    `insert into audit_heads (tenant_id, sequence, hash)
     select value::uuid, 0, ''::bytea from json_array_elements_text(?::json) order by 1 on conflict (tenant_id) do nothing`,
    [tenantIds],
  );
  const heads = await em.execute<{ tenant_id: string; sequence: string; hash: Buffer }[]>(
    `select tenant_id, sequence, hash from audit_heads
     where tenant_id in (select value::uuid from json_array_elements_text(?::json)) order by tenant_id for update`,
    [tenantIds],
  );
  const known = await em.execute<{ tenant_id: string; id: string }[]>(
    `select tenant_id, id from audit_events
     where (tenant_id, id) in (select tenant_id, id from json_populate_recordset(null::audit_events, ?::json))`,
    [JSON.stringify([...chains.values()].flat().map(({ tenantId, id }) => ({ tenant_id: tenantId, id })))],
  );
  const seen = new Set(known.map(({ tenant_id, id }) => `${tenant_id} ${id}`));
  const rows: object[] = [];
  const moved: object[] = [];
  for (const head of heads) {
    const before = BigInt(head.sequence);
    let sequence = before;
    let hash: Buffer = before === 0n ? emptyHash : head.hash;
    for (const event of chains.get(head.tenant_id)!) {
      const name = `${event.tenantId} ${event.id}`;
      if (seen.has(name)) continue;
      seen.add(name);
      sequence += 1n;
      const chained = { ...event, sequence };
      const previousHash = hash;
      hash = eventHash(previousHash, chained);
      rows.push(rowOf(chained, previousHash, hash));
    }
    if (sequence > before) moved.push({ tenant_id: head.tenant_id, sequence: String(sequence), hash: inJson(hash) });
  }
  if (rows.length === 0) return;
  await em.execute('insert into audit_events select * from json_populate_recordset(null::audit_events, ?::json)', [
    JSON.stringify(rows),
  ]);
  await em.execute(
    `update audit_heads set sequence = moved.sequence, hash = moved.hash
     from json_populate_recordset(null::audit_heads, ?::json) as moved where audit_heads.tenant_id = moved.tenant_id`,
    [JSON.stringify(moved)],
  );
}

/** The event with its ids spelled as Postgres stores them, since the chain hashes what is stored. */
const asStored = (event: Omit<ChainedEvent, 'sequence'>): Omit<ChainedEvent, 'sequence'> => ({
  ...event,
  tenantId: event.tenantId.toLowerCase(),
  id: event.id.toLowerCase(),
  targetId: storedId(event.targetId),
});

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
  previous_hash: inJson(previousHash),
  hash: inJson(hash),
});

/** Bytes as Postgres reads them from JSON. */
const inJson = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;
