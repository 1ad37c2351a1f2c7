import type { AddedField } from '../catalog/deployment-runtime.ts';
import type { Measures } from '../domain/price.ts';
import type { BodyPiece, UpstreamHead } from '../upstream/upstream.ts';
import type { TranscriptUse, UsageBound } from './usage-bound.ts';

/** The most that a call will use, known before it runs; budgets and token limits hold it. */
type Estimate = {
  /** Tokens of the prompt without its media, estimated from its length. */
  inputTokens: number;
  /** Roughly how much of the prompt is media in base64, which have far fewer tokens than their length says. */
  mediaBytes: number;
  /** The most output tokens that the request allows; null: the request does not say. */
  outputTokensMax: number | null;
  /** The number of prompts; each may fill the model's context by itself. */
  prompts: number;
  /** The number of answers asked for at once, to all prompts together. */
  answers: number;
  images: number;
  /** The most that a transcript of its audio can use, of which the tokens above are a usual part; null: there is no audio. */
  heard: TranscriptUse | null;
  characters: number;
};

/** The estimate of a request for text. */
export const textEstimate = (
  inputTokens: number,
  outputTokensMax: number | null,
  { prompts = 1, answers = 1, mediaBytes = 0 } = {},
): Estimate => ({
  inputTokens,
  mediaBytes,
  outputTokensMax,
  prompts,
  answers,
  images: 0,
  heard: null,
  characters: 0,
});

/** What the body depends on. */
export type BodyTarget = {
  /** The model's name at the upstream. */
  upstreamModel: string;
  /** Those of `addedFields` because of which its upstream refuses requests. */
  refusedFields: ReadonlySet<AddedField>;
};

/** A request body, read as far as the gateway needs; one per call. */
export type PreparedCall = {
  /** The model as the client named it. */
  model: string;
  /** Whether the client asked for server-sent events. */
  streamed: boolean;
  /** The field by which it asked for a stream, if that is `stream_format`, or a `stream` that the operation does not have. */
  streamField?: 'stream' | 'stream_format' | undefined;
  /** Whether the client asked for a background job (openai-contract.md section 6). */
  background: boolean;
  estimate: Estimate;
  /** The body for a deployment, with its own name of the model. */
  bodyFor(deployment: BodyTarget): readonly BodyPiece[];
  /** The fields that the gateway has added and can do without. */
  addedFields?(): readonly AddedField[];
  contentType: string;
  /** Cuts each answer to this many tokens; present only if the request sets no limit itself. */
  limitOutputTokens?(tokens: number): void;
  /**
   * Reads the answer of one attempt, once its head has a success status; null: its type cannot answer this call. `bound` decides which
   * reports of usage are believed.
   */
  reader(head: UpstreamHead, bound: UsageBound): AnswerReader | null;
};

/** Converts the upstream's bytes to the client's, and finds out what was used. */
export type AnswerReader = {
  /** The Content-Type that the client gets. */
  contentType: string;
  /** Whether an answer of the operation begins like this; present where the head does not tell. Called before anything is pushed. */
  isAnswer?(start: Uint8Array): boolean;
  /** Whether bytes are passed on as they come; otherwise `end` returns the answer whole. */
  passesOn: boolean;
  /** Takes a piece of the upstream's body; returns what may be passed on now. */
  push(chunk: Uint8Array): readonly Uint8Array[];
  /** Bytes that were pushed and are held until the rest of a whole answer, or of an event, has come. */
  readonly heldBytes: number;
  /** True once the answer is complete although the upstream has not closed it, e.g. after `[DONE]`. */
  readonly complete: boolean;
  /** The least number of output tokens in the pieces passed on so far; journaled before they are sent. */
  readonly outputTokensSoFar: number;
  /** Reads a large whole answer away from the event loop, after its last byte and before `end(false)`; undefined: it is not large. */
  readBeforehand?(): Promise<void> | undefined;
  /** The upstream has ended its answer (`cut`: not intentionally). Called once. */
  end(cut: boolean): AnswerEnd;
};

/** How an answer ended. */
export type AnswerEnd = {
  /** The last bytes for the client. */
  forward: readonly Uint8Array[];
  /** The last bytes to send instead when the client wants the usage and the upstream reported none: they contain what is metered. */
  forwardWith?(used: Measures): readonly Uint8Array[];
  /** What the upstream reported; null: nothing, so it must be counted. */
  reported: Partial<Measures> | null;
  /** What the gateway counts itself, when nothing was reported. Slow: not for the hot path. */
  counted(): Promise<Partial<Measures>>;
  /** Why the answer is incomplete, for the log; null when it is complete. */
  failure: string | null;
  /** The error that the upstream reported in its answer, in its own words; null or undefined: none. */
  said?: string | null;
};
