import fc from 'fast-check';

type RandomHistories = {
  /** For a test of them all, in milliseconds. */
  timeoutMs: number;
  /** Rejects with the failing history, and the seed to reproduce it. */
  assert(property: fc.IAsyncProperty<unknown>): Promise<void>;
};

/** Something that may happen in a history, with its details. */
export const kind = <Kind extends string, Fields>(
  name: Kind,
  fields: { [Key in keyof Fields]: fc.Arbitrary<Fields[Key]> },
): fc.Arbitrary<{ kind: Kind } & Fields> => fc.record(fields).map((drawn) => ({ kind: name, ...(drawn as Fields) }));

/** How often it is drawn, beside others. */
export const weighing = <Value>(weight: number, arbitrary: fc.Arbitrary<Value>) => ({ weight, arbitrary });

/** The mark, such as `mark-7;`, by which a history knows again a call of its own in a request; empty if that has none. */
export const markOf = ({ body }: { body: Buffer }): string => /mark-\d+;/.exec(body.toString())?.[0] ?? '';

/**
 * Random histories of something, as many as run before every merge, or as the variable `<NAME>_HISTORIES` says: 200 take a night. Put what
 * a failed run prints into `<NAME>_SEED` to reproduce it; then it is also shrunk, which takes minutes.
 */
export function randomHistories(name: string, few: number): RandomHistories {
  const count = Number(process.env[`${name}_HISTORIES`] ?? few);
  const seed = process.env[`${name}_SEED`];
  const options = { numRuns: count, endOnFailure: seed === undefined };
  return {
    timeoutMs: 600_000 + count * 60_000,
    async assert(property) {
      try {
        await fc.assert(property, seed === undefined ? options : { ...options, seed: Number(seed) });
      } catch (failure) {
        throw new Error(withCauses(failure as Error));
      }
    },
  };
}

/** If a test passes at its second try, only what its error itself says is printed. */
function withCauses(failure: Error): string {
  const texts = [failure.message];
  for (let { cause } = failure; cause instanceof Error; cause = cause.cause) texts.push(cause.stack ?? cause.message);
  return texts.join('\nCaused by: ');
}
