import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { loadTokenizer, type Tokenizer } from '../bytes/tokens.ts';

/** What reading requests and answers takes from outside. */
export type CallTools = {
  clock: Clock;
  /** An id for an answer whose own is missing or not unique. */
  mintId(prefix: string): string;
  /** Counts tokens where an upstream did not. The vocabulary is loaded at the first call. */
  tokenizer(): Promise<Tokenizer>;
};

export function createCallTools(clock: Clock): CallTools {
  let tokenizer: Promise<Tokenizer> | undefined;
  return {
    clock,
    mintId: (prefix) => prefix + uuidv7().replaceAll('-', ''),
    tokenizer: () => {
      tokenizer ??= loadTokenizer();
      return tokenizer;
    },
  };
}
