import fc from 'fast-check';
import { kind, weighing } from '../random-histories.ts';

/** How the upstream answers: with success, a final refusal, or a transient fault. */
const outcome = fc.constantFrom('ok', 'refused', 'away');
export type Outcome = typeof outcome extends fc.Arbitrary<infer One> ? One : never;

/** Picks one of what exists at the time. */
const pick = fc.nat(10_000);
const caller = fc.constantFrom('key', 'key', 'key', 'session', 'guest');
/** The first two are the same person. */
export type Caller = typeof caller extends fc.Arbitrary<infer One> ? One : never;

/** What happens to jobs: by a user with a capped key, a guest from another organization, operators and time. */
export const act = fc.oneof(
  weighing(
    12,
    kind('submit', {
      caller,
      isPrivate: fc.boolean(),
      /** For each call in turn; after them all succeed. */
      script: fc.array(outcome, { minLength: 1, maxLength: 3 }),
      repeat: fc.option(fc.record({ key: fc.nat(1), isOther: fc.nat(3).map((drawn) => drawn === 0) }), { nil: null }),
    }),
  ),
  /** The upstream answers a job's call. */
  weighing(10, kind('answer', { pick })),
  /** It answers with success, which is charged, and the answer is lost with its worker. */
  weighing(3, kind('lose', { pick })),
  weighing(4, kind('cancel', { pick, caller })),
  weighing(3, kind('delete', { pick, caller })),
  weighing(5, kind('wait', { isDay: fc.nat(4).map((drawn) => drawn === 0) })),
  /** Replaces the key with another one. */
  weighing(3, kind('renew', {})),
  weighing(3, kind('scope', { has: fc.boolean() })),
  /** Suspends the guest's organization. */
  weighing(3, kind('suspend', { is: fc.boolean() })),
  /** Grants the private model to one of the two. */
  weighing(3, kind('grant', { has: fc.boolean(), isGuest: fc.boolean() })),
  /** Gives the key another secret; the former one ends at once. */
  weighing(2, kind('rotate', {})),
  /** Announces that the private model retires in so many seconds, or moves that date. */
  weighing(2, kind('retire', { seconds: fc.constantFrom(45, 100_000) })),
  weighing(1, kind('keep', {})),
  /** All workers end, and others continue. */
  weighing(2, kind('restart', {})),
  /** No worker was heard from for the length of its lease. */
  weighing(2, kind('silence', {})),
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
