import fc from 'fast-check';

export type RandomHistories = {
  /** For a test of them all, in milliseconds. */
  timeoutMs: number;
  /** Rejects with the history that fails, and the seed to have it again. */
  assert(property: fc.IAsyncProperty<unknown>): Promise<void>;
};

/**
 * Random histories of something, as many as gate every merge or as the variable `<NAME>_HISTORIES` says: 200 are a night's work. What a
 * failed run prints goes into `<NAME>_SEED` to have it again; then it is shrunk as well, which takes minutes.
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

/** Of a test that passes at its second try nothing is printed but what its error says itself. */
function withCauses(failure: Error): string {
  const texts = [failure.message];
  for (let { cause } = failure; cause instanceof Error; cause = cause.cause) texts.push(cause.stack ?? cause.message);
  return texts.join('\nCaused by: ');
}
