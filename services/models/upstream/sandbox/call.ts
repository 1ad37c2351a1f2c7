import type { Tokenizer } from '../../bytes/tokens.ts';
import type { JsonObject } from './fields.ts';
import type { SandboxModel } from './models.ts';

/** One call with a JSON body, as an operation gets it. */
export type Call = {
  model: SandboxModel;
  json: JsonObject;
  /** Hexadecimal, derived from the body alone: the same request has the same ids. */
  id: string;
  /** Unix seconds. */
  created: number;
  tokens: Tokenizer;
};
