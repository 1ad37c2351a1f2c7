import type { Measures } from '../domain/price.ts';
import type { BodyPiece, UpstreamHead } from '../upstream/upstream.ts';
import type { UsageBound } from './usage-bound.ts';

/** What a call will cost at most, known before it runs; budgets and token limits are held against it. */
export type Estimate = {
  /** Tokens of the prompt, estimated from its length. */
  inputTokens: number;
  /** The most output tokens that the request allows; null: the request does not say. */
  outputTokensMax: number | null;
  /** How many prompts there are; each may fill the model's context by itself. */
  prompts: number;
  /** How many answers are asked for at once, to all prompts. */
  answers: number;
  images: number;
  audioMs: number;
  characters: number;
};

/** The estimate of a request for text. */
export const textEstimate = (
  inputTokens: number,
  outputTokensMax: number | null,
  { prompts = 1, answers = 1 } = {},
): Estimate => ({
  inputTokens,
  outputTokensMax,
  prompts,
  answers,
  images: 0,
  audioMs: 0,
  characters: 0,
});

/** What a body depends on. */
export type BodyTarget = {
  /** The model's name at the upstream. */
  upstreamModel: string;
  /** Whether its upstream refuses requests for their `stream_options`. */
  refusesStreamOptions: boolean;
};

/** A request body that was read as far as the gateway needs; one per operation and body. */
export type PreparedCall = {
  /** The model as the client named it. */
  model: string;
  /** Whether the client asked for server-sent events. */
  streamed: boolean;
  /** Whether the client asked for a background job (openai-contract.md section 6). */
  background: boolean;
  estimate: Estimate;
  /** The body for a deployment, in its own name of the model. */
  bodyFor(deployment: BodyTarget): readonly BodyPiece[];
  /** Whether `stream_options` ask for nothing but the usage, which the gateway can count as well. */
  worksWithoutStreamOptions?: boolean;
  contentType: string;
  /** Cuts each answer to so many tokens; there only where the request names no limit of its own. */
  limitOutputTokens?(tokens: number): void;
  /**
   * Reads the answer of one attempt, once its head has a status of success; null: its type is none that answers this call. `bound` says
   * which reports of its usage are believed.
   */
  reader(head: UpstreamHead, bound: UsageBound): AnswerReader | null;
};

/** Turns the upstream's bytes into the client's, and finds out what was used. */
export type AnswerReader = {
  /** The Content-Type that the client gets. */
  contentType: string;
  /** Whether what begins so is an answer of the operation; there where the head does not tell. Asked before anything is pushed. */
  isAnswer?(start: Uint8Array): boolean;
  /** Whether bytes are passed on as they come; otherwise the answer is given whole by `end`. */
  passesOn: boolean;
  /** Takes a piece of the upstream's body; answers what may be passed on now. */
  push(chunk: Uint8Array): readonly Uint8Array[];
  /** True once the answer is complete although the upstream has not closed it, e.g. behind `[DONE]`. */
  readonly complete: boolean;
  /** Output tokens which the pieces passed on so far amount to at least; written to the journal before they are sent. */
  readonly outputTokensSoFar: number;
  /** The upstream has ended its answer (`cut`: not by itself). Called once. */
  end(cut: boolean): AnswerEnd;
};

/** How an answer ended. */
export type AnswerEnd = {
  /** The last bytes for the client. */
  forward: readonly Uint8Array[];
  /** The last bytes instead, where the client wants to be told the usage and the upstream has told none: with what is metered. */
  forwardWith?(used: Measures): readonly Uint8Array[];
  /** What the upstream reported; null: nothing, so that it must be counted. */
  reported: Partial<Measures> | null;
  /** What the gateway counts by itself, for when nothing was reported. Slow: off the hot path only. */
  counted(): Promise<Partial<Measures>>;
  /** Why the answer is not whole, for the log; null when it is. */
  failure: string | null;
  /** The error that the upstream told in its answer, as it wrote it; null or undefined: none. */
  said?: string | null;
};
