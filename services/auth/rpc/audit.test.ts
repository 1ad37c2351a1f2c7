import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { NIL } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuditActorType, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { patiently } from '#shared/db/patiently.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService } from '#shared/rpc/caller.ts';
import { startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import {
  asAppRole,
  asTableOwner,
  join,
  lockWaiters,
  onDatabase,
  operatorOf,
  ownerOf,
} from '../../../test/support/people.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { storedEvent } from '../db/audit.repository.ts';
import { eventHash } from '../domain/audit-chain.ts';

let fixture: TestAuth;
beforeAll(async () => {
  fixture = await startTestAuth();
});
afterAll(() => fixture.close());

const record = (tenantId: string, id = uuidv7(), after = '{"spend_cap_usd":0.000012345}') =>
  create(AuditRecordSchema, {
    id,
    tenantId,
    type: 'api_key_scope_updated',
    occurredAt: timestampFromMs(1_900_000_000_123.4),
    actor: { type: AuditActorType.USER, id: uuidv7(), ip: '192.0.2.1' },
    target: { type: 'api_key', id: uuidv7() },
    beforeJson: '{"spend_cap_usd":25}',
    afterJson: after,
  });
/** The id of an organization whose chain is still empty. */
async function newOrganization(): Promise<string> {
  const id = uuidv7();
  const insert = "insert into organizations (id, name, created_at) values ($1, 'Another', now())";
  await asTableOwner(fixture, insert, [id]);
  return id;
}

const send = (records: ReturnType<typeof record>[]) => fixture.auth.recordAuditEvents({ records }, asService('keys'));
const verify = (tenantId: string) => fixture.auth.verifyAuditChain({ tenantId }, operatorOf(fixture));

/** Verifies a chain two events at a time, from one answer to the next. */
async function verifyInParts(tenantId: string) {
  const parts: bigint[] = [];
  for (let afterSequence = 0n; ; ) {
    const part = await fixture.auth.verifyAuditChain({ tenantId, afterSequence, eventsMax: 2 }, operatorOf(fixture));
    parts.push(part.eventsChecked);
    if (part.nextAfterSequence === undefined) return { parts, firstBrokenSequence: part.firstBrokenSequence };
    afterSequence = part.nextAfterSequence;
  }
}

test('events of other services join the chain, each id once', async () => {
  const tenantId = await newOrganization();
  const records = Array.from({ length: 5 }, () => record(tenantId));
  await Promise.all([send([...records, ...records]), send(records), send(records.slice(2))]);
  const { events } = await fixture.auth.adminListAuditEvents({ tenantId }, operatorOf(fixture));
  expect(events.map((event) => event.record!.id).toSorted()).toEqual(records.map(({ id }) => id).toSorted());
  expect(events.map((event) => event.sequence)).toEqual([5n, 4n, 3n, 2n, 1n]);
  const { eventsChecked, firstBrokenSequence } = await verify(tenantId);
  expect([eventsChecked, firstBrokenSequence]).toEqual([5n, undefined]);
});

test('a thousand events, or mails, are taken over while their sender waits, even if the database is far away', async () => {
  await using proxy = await startPostgresProxy(fixture.database.url);
  await using distant = await startTestAuth({ database: fixture.database, connection: proxy.url });
  await proxy.set({ kind: 'latency', ms: 2 });
  const records = Array.from({ length: 1_000 }, () => record(uuidv7()));
  const take = () => distant.auth.recordAuditEvents({ records }, { ...asService('keys'), timeoutMs: 5_000 });
  await take();
  await take();
  const chained = 'select from audit_events where sequence = 1 and id = any($1)';
  expect((await asTableOwner(fixture, chained, [records.map(({ id }) => id)])).rowCount).toBe(1_000);

  const retirement = { kind: 'model_retirement', subject: 'A model retires', text: 'It retires.' };
  const mails = records.map(({ id }) => ({ ...retirement, dedupeKey: id, toEmail: 'reader@example.com' }));
  const { accepted } = await distant.auth.sendMail({ mails }, { ...asService('models'), timeoutMs: 5_000 });
  expect(accepted).toBe(1_000);

  // Auth's own events too: of the invitations that end with somebody who sent many.
  const inviter = await join(fixture, 'inviter@example.com');
  await asTableOwner(
    fixture,
    `insert into invitations (id, tenant_id, email, role, token_hash, invited_by_user_id, created_at, expires_at)
     select gen_random_uuid(), case when nth % 2 = 0 then $1::uuid end, nth || '@example.com', 3, decode(md5(nth::text), 'hex'),
       $2, now(), now() + interval '1 day' from generate_series(1, 400) as nth`,
    [inviter.tenantId, inviter.id],
  );
  const removal = { userId: inviter.id, isActive: false };
  await distant.auth.adminUpdateUser(removal, { ...operatorOf(fixture), timeoutMs: 5_000 });
  const told = `select from invitations join audit_events on target_id = invitations.id::text and type = 'invitation_withdrawn'
    where invited_by_user_id = $1 and withdrawn_at is not null`;
  expect((await asTableOwner(fixture, told, [inviter.id])).rowCount).toBe(400);
});

test('a thousand events from many writers form one intact chain', async () => {
  const tenantId = await newOrganization();
  const batches = Array.from({ length: 20 }, () => Array.from({ length: 50 }, () => record(tenantId)));
  // On a busy machine the last of so many writers are told to come again, and do, as the relay of other services would.
  await Promise.all(batches.map((records) => patiently(() => send(records))));
  const { eventsChecked, firstBrokenSequence } = await verify(tenantId);
  expect([eventsChecked, firstBrokenSequence]).toEqual([1000n, undefined]);
});

test('the role under which Auth works can neither change, remove nor truncate the events', async () => {
  await send([record(fixture.owner.tenantId)]);
  for (const statement of [
    `update audit_events set after_json = '{}'`,
    'delete from audit_events',
    'truncate audit_events',
    'delete from audit_heads',
  ]) {
    await expect(asAppRole(fixture, statement), statement).rejects.toMatchObject({ code: '42501' });
  }
});

test.each([
  ['an edited event', `update audit_events set after_json = '{"spend_cap_usd":26}' where sequence = 3`, 3n],
  ['an event that was moved to another time', `update audit_events set occurred_at = now() where sequence = 2`, 2n],
  ['a removed event', 'delete from audit_events where sequence = 4', 4n],
  ['a cut end', 'delete from audit_events where sequence >= 5', 5n],
  ['an emptied chain', 'delete from audit_events', 1n],
])('%s is detected, even if done by someone with every right', async (_name, statement, broken) => {
  const tenantId = await newOrganization();
  await send(Array.from({ length: 5 }, () => record(tenantId)));
  await asTableOwner(
    fixture,
    `${statement}${statement.includes('where') ? ' and' : ' where'} tenant_id = '${tenantId}'`,
  );
  expect((await verify(tenantId)).firstBrokenSequence).toBe(broken);
  expect((await verifyInParts(tenantId)).firstBrokenSequence).toBe(broken);
});

test('an edited last event is detected, even with a hash made to fit', async () => {
  const tenantId = await newOrganization();
  await send(Array.from({ length: 3 }, () => record(tenantId)));
  const text = 'select * from audit_events where tenant_id = $1 and sequence = 3';
  const { rows } = await asTableOwner(fixture, text, [tenantId]);
  const hash = eventHash(rows[0].previous_hash, { ...storedEvent(rows[0]), afterJson: '{}' });
  const forge = `update audit_events set after_json = '{}', hash = $2 where tenant_id = $1 and sequence = 3`;
  await asTableOwner(fixture, forge, [tenantId, hash]);
  expect((await verify(tenantId)).firstBrokenSequence).toBe(3n);
});

test('an event that is appended while its chain is verified does not count as a break', async () => {
  const tenantId = await newOrganization();
  await send([record(tenantId)]);
  const verdict = await onDatabase(fixture, async (client) => {
    await client.query('begin; lock table audit_heads in access exclusive mode');
    const verifying = verify(tenantId);
    await waitFor(async () => (await lockWaiters(fixture)) === 1, {
      description: 'the verification to read the head, after the events',
    });
    await client.query('update audit_heads set sequence = 2 where tenant_id = $1', [tenantId]);
    await client.query('commit');
    return verifying;
  });
  expect([verdict.eventsChecked, verdict.firstBrokenSequence]).toEqual([1n, undefined]);
});

test('a chain that is verified in parts is read only once, and each part continues after an existing event', async () => {
  const tenantId = await newOrganization();
  await send(Array.from({ length: 4 }, () => record(tenantId)));
  expect(await verifyInParts(tenantId)).toEqual({ parts: [2n, 2n, 0n], firstBrokenSequence: undefined });
  await send([record(tenantId)]);
  expect(await verifyInParts(tenantId)).toEqual({ parts: [2n, 2n, 1n], firstBrokenSequence: undefined });
  // An answer without events would look like an intact chain.
  const behind = fixture.auth.verifyAuditChain({ tenantId, afterSequence: 6n }, operatorOf(fixture));
  await expect(behind).rejects.toMatchObject({
    reason: ErrorReason.INVALID_REQUEST,
    details: { param: 'after_sequence' },
  });
});

test('the platform has a chain, also under the nil UUID, and a nonexistent organization has none', async () => {
  expect((await verify(NIL)).eventsChecked).toBe((await verify('')).eventsChecked);
  await expect(verify(uuidv7())).rejects.toMatchObject({ reason: ErrorReason.NOT_FOUND });
});

test('a chain longer than one call reads is never reported as intact before its end', async () => {
  const tenantId = await newOrganization();
  const length = 20_001;
  for (let sent = 0; sent < length; sent += 1_000) {
    await send(Array.from({ length: Math.min(1_000, length - sent) }, () => record(tenantId)));
  }
  for (const eventsMax of [0, 1_000_000]) {
    const begun = await fixture.auth.verifyAuditChain({ tenantId, eventsMax }, operatorOf(fixture));
    expect(begun).toMatchObject({ eventsChecked: 20_000n, nextAfterSequence: 20_000n });
    const afterSequence = begun.nextAfterSequence!;
    const rest = await fixture.auth.verifyAuditChain({ tenantId, afterSequence, eventsMax }, operatorOf(fixture));
    expect([rest.eventsChecked, rest.firstBrokenSequence, rest.nextAfterSequence]).toEqual([1n, undefined, undefined]);
  }
});

/** How to turn a value into another, by the type of its column. */
const edits: Readonly<Record<string, (column: string) => string>> = {
  uuid: () => 'gen_random_uuid()',
  bigint: (column) => `${column} + 100`,
  smallint: (column) => `${column} + 1`,
  text: (column) => `${column} || ' '`,
  bytea: (column) => `set_byte(${column}, 0, 255 - get_byte(${column}, 0))`,
  'timestamp with time zone': (column) => `${column} + interval '1 ms'`,
};

test('an edit of any single column of an event is detected', async () => {
  const { rows: columns } = await asTableOwner(
    fixture,
    `select column_name as name, data_type as type from information_schema.columns
     where table_schema = 'auth' and table_name = 'audit_events'`,
  );
  expect(columns.map(({ name }) => name)).toContain('actor_ip');
  for (const { name, type } of columns) {
    const tenantId = await newOrganization();
    await send(Array.from({ length: 3 }, () => record(tenantId)));
    const statement = `update audit_events set ${name} = ${edits[type]!(name)} where tenant_id = $1 and sequence = 2`;
    const { rowCount } = await asTableOwner(fixture, statement, [tenantId]);
    expect([name, rowCount, (await verify(tenantId)).firstBrokenSequence]).toEqual([name, 1, 2n]);
  }
});

test('a change made by Auth is in the chain of its organization, with before and after', async () => {
  await fixture.auth.updateOrganization({ name: 'Renamed' }, ownerOf(fixture));
  const { events } = await fixture.auth.listAuditEvents({ type: 'organization_updated' }, ownerOf(fixture));
  expect(events[0]!.record).toMatchObject({
    beforeJson: '{"name":"First"}',
    afterJson: '{"name":"Renamed"}',
    actor: { id: fixture.owner.userId, ip: '192.0.2.1' },
    requestId: 'req_test',
  });
  expect((await verify(fixture.owner.tenantId)).firstBrokenSequence).toBeUndefined();
});

test('an operator who spells the id of an organization in capitals leaves its chain intact', async () => {
  const id = await newOrganization();
  const call = { tenantId: id.toUpperCase() };
  await fixture.auth.suspendOrganization({ ...call, reason: 'unpaid' }, operatorOf(fixture));
  await fixture.auth.restoreOrganization(call, operatorOf(fixture));
  await fixture.auth.adminUpdateOrganization({ ...call, name: 'Renamed' }, operatorOf(fixture));
  const { eventsChecked, firstBrokenSequence } = await verify(id);
  expect([eventsChecked, firstBrokenSequence]).toEqual([3n, undefined]);
  const filter = { targetId: id };
  const { events } = await fixture.auth.adminListAuditEvents({ tenantId: id, filter }, operatorOf(fixture));
  expect(events).toHaveLength(3);
});

test('an event is found by the ids of its target and actor, however they were and are spelled', async () => {
  const event = record(await newOrganization());
  const targetId = event.target!.id;
  event.target!.id = targetId.toUpperCase();
  await send([event]);
  const actorId = event.actor!.id;
  for (const filter of [
    { targetId, actorId },
    { targetId: targetId.toUpperCase(), actorId: actorId.toUpperCase() },
  ]) {
    const { events } = await fixture.auth.adminListAuditEvents({ filter }, operatorOf(fixture));
    expect(events.map(({ record }) => record!.target!.id)).toEqual([targetId]);
  }
});

test('an organization sees only its own events', async () => {
  await send([record(uuidv7())]);
  const { events } = await fixture.auth.listAuditEvents({ page: { limit: 100 } }, ownerOf(fixture));
  expect(events.length).toBeGreaterThan(0);
  expect(events.every((event) => event.record!.tenantId === fixture.owner.tenantId)).toBe(true);
});
