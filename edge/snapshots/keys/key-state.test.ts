import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { beforeEach, expect, test } from 'vitest';
import { WatchKeysResponseSchema } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import { AuthenticateResponseSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { Role } from '#shared/rpc/caller.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { KeyState } from './key-state.ts';

const ids = { keyId: 'key', tenantId: 'tenant', userId: 'user' };
const digests = { names: ['1:ZGlnZXN0'], messages: [] };

let state: KeyState;
let resets: number;
beforeEach(() => {
  resets = 0;
  state = new KeyState({
    clock: new ManualClock(0),
    capacity: 10,
    revocations: {
      revoke() {},
      change() {},
      checkAll() {
        resets += 1;
      },
    },
  });
});

/** An answer of Keys, read from its data at a version: the key's principal, or that nobody has the secret. */
const answerOf = (version: bigint, principal: typeof ids | null = ids) =>
  create(AuthenticateResponseSchema, { version, ...(principal !== null && { principal }) });
const take = (answer: ReturnType<typeof answerOf>) => state.take(answer, 'hash', digests);
const apply = (version: bigint, event: MessageInitShape<typeof WatchKeysResponseSchema>['event']) =>
  state.apply(create(WatchKeysResponseSchema, { version, event }));

const changes: [string, MessageInitShape<typeof WatchKeysResponseSchema>['event']][] = [
  ['its key changed', { case: 'keyChanged', value: { digests: [], principal: { ...ids, version: 5n } } }],
  ['its key was removed', { case: 'keyRemoved', value: { keyId: ids.keyId, wholeKey: true } }],
  ['its organization changed', { case: 'tenantChanged', value: { tenantId: ids.tenantId, suspended: true } }],
  ['its user was deactivated', { case: 'userChanged', value: { userId: ids.userId, isActive: false } }],
  ['changes were missed', { case: 'cacheReset', value: {} }],
];
test.each(changes)('an answer that was read before %s is not used, but one read with it is', (_what, event) => {
  apply(5n, event);
  expect(take(answerOf(4n))).toBeUndefined();
  expect(take(answerOf(5n))).toMatchObject({ version: 5n });
});

test('an answer that was read before a change is not used, even once so many others have followed that the change is forgotten', () => {
  const remove = (version: bigint, keyId: string) =>
    apply(version, { case: 'keyRemoved', value: { keyId, wholeKey: true } });
  remove(5n, ids.keyId);
  for (let version = 6n; version <= 10_005n; version += 1n) remove(version, `another ${version}`);
  expect(take(answerOf(4n))).toBeUndefined();
  expect(take(answerOf(10_005n))).toMatchObject({ version: 10_005n });
});

test('that nobody has a secret is not believed once its user may be active again, whether it was asked before or after', () => {
  expect(take(answerOf(4n, null))).toBeNull();
  expect(state.isUnknown('hash')).toBe(true);
  apply(5n, { case: 'userChanged', value: { userId: ids.userId, isActive: true, role: Role.MEMBER } });
  expect(state.isUnknown('hash')).toBe(false);
  expect(take(answerOf(4n, null))).toBeUndefined();
  expect(take(answerOf(5n))).toMatchObject({ version: 5n });
});

test('when changes were missed nothing is remembered, and open connections are checked', () => {
  take(answerOf(4n));
  state.take(answerOf(4n, null), 'of nobody', digests);
  apply(5n, { case: 'cacheReset', value: {} });
  expect([state.find('hash'), state.size, state.isUnknown('of nobody'), resets]).toEqual([undefined, 0, false, 1]);
});
