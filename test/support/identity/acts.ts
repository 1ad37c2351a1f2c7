import fc from 'fast-check';
import { kind, weighing } from '../random-histories.ts';

/** Picks one of what exists at the time. */
const pick = fc.nat(10_000);
const role = fc.constantFrom('member', 'admin', 'owner');
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

const activity = fc.constantFrom(undefined, undefined, false, true);
const scopes = fc.constantFrom(
  undefined,
  ['models:list'],
  ['inference:embeddings'],
  ['billing:read_current'],
  ['billing:read_summary', 'usage:read_current'],
);

/** What people do with their credentials. `by` is the session that does it. */
export const act = fc.oneof(
  weighing(9, kind('login', { who: pick, password: fc.constantFrom('right', 'right', 'right', 'former', 'wrong') })),
  weighing(6, kind('refresh', { session: pick, token: fc.constantFrom('current', 'current', 'previous', 'first') })),
  weighing(2, kind('logout', { session: pick, by: fc.constantFrom('access token', 'refresh token') })),
  weighing(2, kind('change password', { by: pick, isRight: fc.boolean() })),
  weighing(2, kind('reset password', { who: pick, afterMinutes: fc.constantFrom(0, 0, 61) })),
  weighing(6, kind('change member', { by: pick, who: pick, role: optional(role), isActive: activity })),
  weighing(
    4,
    kind('change user', {
      by: pick,
      who: pick,
      isActive: activity,
      operator: optional(fc.boolean()),
      address: fc.constantFrom(undefined, undefined, 0, 1, 2, 3),
    }),
  ),
  weighing(6, kind('ask for address', { by: pick, address: fc.nat(7), isRight: fc.constantFrom(true, true, false) })),
  weighing(8, kind('confirm address', { by: pick, link: pick })),
  weighing(4, kind('invite', { by: pick, address: fc.nat(7), role })),
  weighing(5, kind('accept', { invitation: pick })),
  weighing(1, kind('withdraw', { by: pick, invitation: pick })),
  weighing(2, kind('found', { by: pick, address: fc.nat(7) })),
  weighing(3, kind('suspend', { by: pick, organization: pick, again: fc.boolean() })),
  weighing(2, kind('restore', { by: pick, organization: pick })),
  weighing(
    8,
    kind('create key', {
      by: pick,
      type: fc.constantFrom('inference', 'management'),
      scopes,
      minutes: optional(fc.constantFrom(20, 90)),
    }),
  ),
  weighing(3, kind('change key', { by: pick, key: pick, scopes, minutes: fc.constantFrom(undefined, null, 20, 90) })),
  weighing(3, kind('rotate key', { by: pick, key: pick, graceMinutes: fc.constantFrom(0, 20, 90) })),
  weighing(2, kind('delete key', { by: pick, key: pick })),
  weighing(2, kind('revoke key', { by: pick, key: pick })),
  weighing(3, kind('wait', { minutes: fc.constantFrom(0.2, 0.2, 7, 7, 31, 24 * 60, 7 * 24 * 60) })),
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
