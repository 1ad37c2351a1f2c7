import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { WatchAuthResponseSchema } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { SessionState } from './session-state.ts';
import { TokenVerifier } from './token-verifier.ts';

const startMs = Date.parse('2030-01-01T00:00:00Z');

function started() {
  const clock = new ManualClock(startMs);
  const verifier = new TokenVerifier({ clock, issuer: 'https://gateway.example' });
  const state = new SessionState({ clock, verifier, onChange: () => {} });
  const apply = (event: MessageInitShape<typeof WatchAuthResponseSchema>['event']) =>
    state.apply(create(WatchAuthResponseSchema, { event }));
  const signingKeys = [{ kid: 'kid', publicKey: Buffer.alloc(32, 1) }];
  apply({ case: 'snapshot', value: { signingKeys } });
  const accepts = (sessionId: string, userId: string) =>
    state.accepts({ kid: 'kid', sessionId, userId, issuedAtMs: startMs });
  return { clock, state, apply, accepts, signingKeys };
}

test('an organization restored while the feed was away is no longer suspended, and one suspended meanwhile is', () => {
  const { state, apply, signingKeys } = started();
  apply({ case: 'tenantChanged', value: { tenantId: 'restored', suspended: true } });
  apply({ case: 'snapshot', value: { signingKeys, suspendedTenantIds: ['suspended'] } });
  expect(['restored', 'suspended'].map((id) => state.isSuspended(id))).toEqual([false, true]);
});

test('a user whose deactivation was lost, as behind a failover, is accepted as the database knows them; an ended session stays ended', () => {
  const { apply, accepts, signingKeys } = started();
  const forgetAfter = timestampFromMs(startMs + 1_000);
  apply({ case: 'userChanged', value: { userId: 'lost', isActive: false, forgetAfter, tokensNotBefore: forgetAfter } });
  apply({ case: 'sessionEnded', value: { sessionId: 'ended', forgetAfter } });
  apply({ case: 'snapshot', value: { signingKeys } });
  expect([accepts('other', 'lost'), accepts('ended', 'nobody')]).toEqual([true, false]);
});

test('however much happens, an ended session and a changed user are remembered as long as their tokens last, and no longer', () => {
  const { clock, apply, accepts } = started();
  const forgetAfter = timestampFromMs(startMs + 1_000);
  apply({ case: 'sessionEnded', value: { sessionId: 'ended', forgetAfter } });
  const tokensNotBefore = timestampFromMs(startMs + 1);
  apply({ case: 'userChanged', value: { userId: 'changed', isActive: true, tokensNotBefore, forgetAfter } });
  const muchHappens = () => {
    for (let events = 0; events < 1_000; events += 1) apply({ case: 'heartbeat', value: {} });
  };
  const accepted = () => [accepts('ended', 'nobody'), accepts('other', 'changed'), accepts('other', 'nobody')];
  clock.advance(1_000);
  muchHappens();
  expect(accepted()).toEqual([false, false, true]);
  clock.advance(1);
  muchHappens();
  expect(accepted()).toEqual([true, true, true]);
});
