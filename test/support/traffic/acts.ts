import fc from 'fast-check';
import { kind, weighing } from '../random-histories.ts';

const caller = fc.constantFrom('capped', 'capped', 'other', 'session', 'guest');
export type Caller = typeof caller extends fc.Arbitrary<infer One> ? One : never;

/** In USD; a call costs up to 0.01 of them. */
const limit = fc.constantFrom(null, 0, 0.012, 0.03, 0.1);
const amount = fc.constantFrom(0.000_001, 0.015, 0.1);
const pick = fc.nat(10_000);

const call = kind('call', {
  caller,
  isStream: fc.boolean(),
  tokens: fc.constantFrom(1, 40, 1_000),
  tokensMax: fc.constantFrom(1_000, 1_000, 50),
  answer: fc.constantFrom('whole', 'whole', 'whole', 'cut', 'away', 'refused', 'no usage'),
  holdMs: fc.constantFrom(0, 0, 5, 40),
  leaves: fc.constantFrom<'asked' | number | null>(null, null, null, null, 'asked', 1, 300),
});
const job = kind('job', {
  caller,
  tokens: fc.constantFrom(1, 1_000),
  answers: fc.array(fc.constantFrom('whole', 'whole', 'away', 'refused'), { minLength: 1, maxLength: 2 }),
  holdMs: fc.constantFrom(0, 0, 40, 150),
});
export type Call = typeof call extends fc.Arbitrary<infer One> ? One : never;
export type Job = typeof job extends fc.Arbitrary<infer One> ? One : never;

/** What happens at the same moment. */
const act = fc.oneof(
  weighing(24, call),
  weighing(6, job),
  weighing(2, kind('cancel', { pick })),
  weighing(2, kind('cap', { limit })),
  weighing(2, kind('rotate', { graceSeconds: fc.constantFrom(0, 60) })),
  weighing(1, kind('renew', {})),
  weighing(2, kind('personal', { limit })),
  weighing(2, kind('payg cap', { limit })),
  weighing(2, kind('plan', { payg: fc.boolean() })),
  weighing(2, kind('credit', { amount, isGuest: fc.boolean() })),
  weighing(1, kind('adjust', { amount })),
  weighing(1, kind('commit', { amount, isGuest: fc.boolean() })),
  weighing(1, kind('end commitments', { isGuest: fc.boolean() })),
  weighing(1, kind('suspend', { is: fc.boolean() })),
  weighing(3, kind('price', { usd: fc.constantFrom(0, 10, 10, 5) })),
  weighing(2, kind('deployment', { enabled: fc.boolean() })),
  weighing(1, kind('move', {})),
  weighing(1, kind('restart', {})),
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;

export const steps = fc.array(fc.array(act, { minLength: 1, maxLength: 8 }), { minLength: 4, maxLength: 10 });
