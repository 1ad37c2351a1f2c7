import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { UpdateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { asService } from '#shared/rpc/caller.ts';
import { as, type KeysBench, reasonOf, sessionOf, startKeysBench } from '../../test/support/keys.ts';
import { atOnce } from '../../test/support/people.ts';

let bench: KeysBench;
let keys: KeysBench['keys'];
beforeAll(async () => {
  bench = await startKeysBench();
  ({ keys } = bench);
});
afterAll(() => bench[Symbol.asyncDispose]());

const notChanged = new Set(['key_id', 'update_mask']);
const operator = as(sessionOf({ operator: true }));

describe('audit events', () => {
  test('record each change once, with the values before and after, and no secret', async () => {
    const caller = sessionOf();
    const user = as(caller);
    const { key, secret } = await keys.createKey({ name: 'audited', scopes: { scopes: ['models:list'] } }, user);
    const keyId = key!.id;
    const paths = ['name', 'scopes', 'spend_cap_nano_usd', 'expires_at'];
    const expiresAt = timestampFromDate(new Date('2040-01-01'));
    const scopes = ['models:list', 'inference:chat'];
    const change = { name: 'renamed', scopes, spendCapNanoUsd: 100_000_000n, expiresAt };
    await keys.updateKey({ keyId, updateMask: { paths }, ...change }, user);
    // The same again changes nothing, and is not recorded.
    await keys.updateKey({ keyId, updateMask: { paths }, ...change }, user);
    const rotated = await keys.rotateKey({ keyId }, user);
    await keys.revokeKey({ keyId, reason: 'leaked' }, operator);
    await keys.revokeKey({ keyId, reason: 'again' }, operator);
    await keys.deleteKey({ keyId }, user);
    const events = await bench.auditEvents(keyId);
    expect(events.map(({ type }) => type)).toEqual([
      'api_key_created',
      'api_key_scope_updated',
      'api_key_updated',
      'api_key_rotated',
      'api_key_revoked',
      'api_key_deleted',
    ]);
    expect(events[1]).toMatchObject({
      tenantId: caller.tenantId,
      actor: AuditActorType.USER,
      before: { scopes: ['models:list'], spend_cap_usd: null },
      after: { scopes: ['models:list', 'inference:chat'], spend_cap_usd: 0.1 },
    });
    expect(events[2]).toMatchObject({
      before: { name: 'audited', expires_at: null },
      after: { name: 'renamed', expires_at: expect.stringContaining('2040-01-01') },
    });
    expect(events[4]).toMatchObject({ actor: AuditActorType.OPERATOR, after: { reason: 'leaked' } });
    for (const issued of [secret, rotated.secret]) expect(JSON.stringify(events)).not.toContain(issued);
  });

  test('record each field that an update can change, and the edges are told of each', async () => {
    const caller = sessionOf();
    const { key } = await keys.createKey({ name: 'audited' }, as(caller));
    const keyId = key!.id;
    const changed: MessageInitShape<typeof UpdateKeyRequestSchema> = {
      name: 'renamed',
      scopes: ['models:list'],
      expiresAt: timestampFromMs(Date.now() + 60_000),
      modelAllowlist: ['acme/large'],
      ipAllowlist: ['192.0.2.1'],
      spendCapNanoUsd: 0n,
    };
    const paths = UpdateKeyRequestSchema.fields.map(({ name }) => name).filter((name) => !notChanged.has(name));
    const versionOf = async () => (await keys.getPrincipal({ keyId }, asService('jobs'))).principal!.version;
    for (const path of paths) {
      const before = await versionOf();
      await keys.updateKey({ keyId, updateMask: { paths: [path] }, ...changed }, as(caller));
      expect([path, await versionOf()]).not.toEqual([path, before]);
    }
    const events = (await bench.auditEvents(keyId)).slice(1);
    expect(events.map(({ after }) => Object.keys(after as object))).toEqual(
      paths.map((path) => [path.replace('nano_usd', 'usd')]),
    );
  });

  test('record what a change removes from a long list and adds to it, not the list; a short list is recorded whole', async () => {
    const user = as(sessionOf());
    const { key } = await keys.createKey({ name: 'allowing' }, user);
    const allow = (ipAllowlist: string[]) =>
      keys.updateKey({ keyId: key!.id, updateMask: { paths: ['ip_allowlist'] }, ipAllowlist }, user);
    const many = Array.from({ length: 998 }, (_, index) => `2001:db8::${index.toString(16)}`);
    await allow(many);
    await allow([...many.slice(1), '192.0.2.1', '192.0.2.2']);
    await allow(['192.0.2.1', '192.0.2.3']);
    await allow(['192.0.2.1']);
    await allow([]);
    const changes = (await bench.auditEvents(key!.id)).slice(1).map(({ before, after }) => ({ before, after }));
    expect(changes).toEqual([
      { before: { ip_allowlist: null }, after: { ip_allowlist: many } },
      {
        before: { ip_allowlist: { count: 998, removed: ['2001:db8::0'] } },
        after: { ip_allowlist: { count: 999, added: ['192.0.2.1', '192.0.2.2'] } },
      },
      {
        before: { ip_allowlist: { count: 999, removed: [...many.slice(1), '192.0.2.2'] } },
        after: { ip_allowlist: { count: 2, added: ['192.0.2.3'] } },
      },
      { before: { ip_allowlist: ['192.0.2.1', '192.0.2.3'] }, after: { ip_allowlist: ['192.0.2.1'] } },
      { before: { ip_allowlist: ['192.0.2.1'] }, after: { ip_allowlist: null } },
    ]);
  });

  test('record once what several request at the same moment', async () => {
    const user = as(sessionOf());
    const calls: ((keyId: string) => Promise<unknown>)[] = [
      (keyId) => keys.revokeKey({ keyId }, operator),
      (keyId) => keys.deleteKey({ keyId }, user).catch(() => {}),
    ];
    for (const call of calls) {
      const { key } = await keys.createKey({ name: 'ended' }, user);
      const once = () => call(key!.id);
      // Anyone who changes something will wait there.
      await atOnce(bench, [once, once, once], 'select from keys.feed for update');
      expect(await bench.auditEvents(key!.id)).toHaveLength(2);
    }
  });

  test('a change that fails leaves no event', async () => {
    const caller = sessionOf();
    const count = async () => (await bench.rows('select count(*) from audit_outbox'))[0]!.count;
    const before = await count();
    expect(await reasonOf(keys.createKey({ name: 'x', scopes: { scopes: [] } }, as(caller)))).toBe(
      ErrorReason.INVALID_REQUEST,
    );
    expect(await count()).toBe(before);
  });
});
