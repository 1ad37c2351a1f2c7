import type { Clock } from '#shared/clock.ts';
import { loadTokenizer, type Tokenizer } from '../bytes/tokens.ts';

/** What reading requests and answers takes from outside. */
export type CallTools = {
  clock: Clock;
  /** Counts tokens where an upstream did not. The vocabulary is loaded at the first call. */
  tokenizer(): Promise<Tokenizer>;
};

export function createCallTools(clock: Clock): CallTools {
  let tokenizer: Promise<Tokenizer> | undefined;
  return {
    clock,
    tokenizer: () => {
      tokenizer ??= loadTokenizer();
      return tokenizer;
    },
  };
}
