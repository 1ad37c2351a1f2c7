import fc from 'fast-check';

/** How the upstream answers: with success, a refusal that is final, or a fault that passes. */
const outcome = fc.constantFrom('ok', 'refused', 'away');
export type Outcome = typeof outcome extends fc.Arbitrary<infer One> ? One : never;

/** Chooses one of what there is then. */
const pick = fc.nat(10_000);
const caller = fc.constantFrom('key', 'key', 'key', 'session', 'guest');
/** The first two are the same person. */
export type Caller = typeof caller extends fc.Arbitrary<infer One> ? One : never;

const kind = <Kind extends string, Fields>(
  name: Kind,
  fields: { [Key in keyof Fields]: fc.Arbitrary<Fields[Key]> },
): fc.Arbitrary<{ kind: Kind } & Fields> => fc.record(fields).map((drawn) => ({ kind: name, ...(drawn as Fields) }));
const weighing = <Value>(weight: number, arbitrary: fc.Arbitrary<Value>) => ({ weight, arbitrary });

/** What a person with a key that has a cap, a guest of another organization, operators and time do to jobs. */
export const act = fc.oneof(
  weighing(
    12,
    kind('submit', {
      caller,
      isPrivate: fc.boolean(),
      /** Of each call in turn; behind them all are well. */
      script: fc.array(outcome, { minLength: 1, maxLength: 3 }),
      repeat: fc.option(fc.record({ key: fc.nat(1), isOther: fc.nat(3).map((drawn) => drawn === 0) }), { nil: null }),
    }),
  ),
  /** The upstream answers a job's call. */
  weighing(10, kind('answer', { pick })),
  weighing(4, kind('cancel', { pick, caller })),
  weighing(3, kind('delete', { pick, caller })),
  weighing(5, kind('wait', { isDay: fc.nat(4).map((drawn) => drawn === 0) })),
  /** In place of the key there is another one. */
  weighing(3, kind('renew', {})),
  weighing(3, kind('scope', { has: fc.boolean() })),
  /** Of the guest's organization. */
  weighing(3, kind('suspend', { is: fc.boolean() })),
  /** Of the private model, to one of both. */
  weighing(3, kind('grant', { has: fc.boolean(), isGuest: fc.boolean() })),
  /** All workers end, and others go on. */
  weighing(2, kind('restart', {})),
  /** No worker was heard of for the time of its lease. */
  weighing(2, kind('silence', {})),
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
