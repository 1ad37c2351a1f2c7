import fc from 'fast-check';
import { kind } from '../random-histories.ts';

/** Times around which the rules for months and years matter; all are ahead of the machine's clock. */
export const start = fc.constantFrom(
  '2027-03-27T20:00',
  '2027-10-30T20:00',
  '2027-01-31T22:10',
  '2028-02-28T23:20',
  '2028-12-31T20:00',
  '2029-02-27T12:00',
);
export const zone = fc.constantFrom(
  'UTC',
  'Asia/Kathmandu',
  'America/Los_Angeles',
  'Pacific/Kiritimati',
  'Europe/Berlin',
  'Australia/Lord_Howe',
  'America/St_Johns',
);

const amount = fc.bigInt({ min: 1n, max: 20_000_000_000n });
const call = fc.record({
  input: fc.integer({ min: 0, max: 3_000_000 }),
  cachedPart: fc.constantFrom(0, 0.3, 1),
  output: fc.integer({ min: 0, max: 900_001 }),
  minutesAgo: fc.oneof(fc.integer({ min: 0, max: 90 }), fc.integer({ min: 0, max: 45 * 24 * 60 })),
  user: fc.nat(1),
  key: fc.nat(2),
  model: fc.nat(1),
  price: fc.nat(1),
});
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });
const pick = fc.nat(1_000);

/** What may happen to an organization. */
export const act = fc.oneof(
  {
    weight: 8,
    arbitrary: kind('call', { calls: fc.array(call, { minLength: 1, maxLength: 6 }), again: fc.boolean() }),
  },
  { weight: 3, arbitrary: kind('wait', { hours: fc.integer({ min: 1, max: 15 * 24 }) }) },
  { weight: 3, arbitrary: kind('month', { minutes: fc.integer({ min: -30, max: 90 }) }) },
  {
    weight: 2,
    arbitrary: kind('grant', {
      amount,
      by: fc.constantFrom('promotion', 'purchase', 'payment'),
      hours: optional(fc.integer({ min: 1, max: 900 })),
    }),
  },
  { weight: 1, arbitrary: kind('coupon', { amount, days: fc.integer({ min: 0, max: 40 }) }) },
  { weight: 2, arbitrary: kind('adjust', { amount, by: fc.constantFrom('add', 'deduct', 'owe') }) },
  {
    weight: 1,
    arbitrary: kind('commit', {
      amount,
      inHours: fc.integer({ min: -48, max: 48 }),
      hours: fc.integer({ min: 49, max: 1_500 }),
    }),
  },
  { weight: 1, arbitrary: kind('end', { pick }) },
  /** By an operator, or because the answer of a job's call was lost. */
  {
    weight: 2,
    arbitrary: kind('refund', { pick, amount: optional(amount), isLost: fc.nat(3).map((drawn) => drawn === 0) }),
  },
  {
    weight: 1,
    arbitrary: kind('plan', {
      payg: fc.boolean(),
      creditNanoUsd: fc.constantFrom(0n, 1_000_000_001n, 2_500_000_000n),
      termsDays: fc.constantFrom(0, 14, 30),
    }),
  },
  {
    weight: 2,
    arbitrary: kind('pay', {
      pick,
      by: fc.constantFrom('operator', 'operator, by its id', 'cents short', 'cents', 'more'),
    }),
  },
  {
    weight: 2,
    arbitrary: kind('payback', {
      pick,
      cents: fc.integer({ min: 1, max: 3_000 }),
      as: fc.constantFrom('refund', 'dispute'),
      undonePart: fc.constantFrom(0, 0.4, 1),
      inOrder: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: kind('void', { pick }) },
  { weight: 1, arbitrary: kind('cap', { limit: optional(amount) }) },
  { weight: 1, arbitrary: kind('limit', { limit: optional(amount) }) },
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
export type CallFields = typeof call extends fc.Arbitrary<infer One> ? One : never;
