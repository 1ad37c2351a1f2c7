import type { ReportedUsage, TruthEntry } from './truth-log.ts';

/** One piece of an answer, and what sending it means. */
export type Piece = {
  bytes: string | Buffer;
  /** Output tokens that were generated for it. */
  tokens: number;
  text?: string;
  /** The usage that it reports. */
  usage?: ReportedUsage | null;
};

/** What is sent back: a body with its length, or a stream of pieces. */
export type Answer = {
  status: number;
  contentType: string | null;
  headers?: Record<string, string>;
} & ({ body: Piece } | { stream: Iterable<Piece> });

export const jsonAnswer = (value: unknown, piece: Omit<Piece, 'bytes'> = { tokens: 0 }): Answer => ({
  status: 200,
  contentType: 'application/json',
  body: { bytes: JSON.stringify(value), ...piece },
});

export const eventStream = (stream: Iterable<Piece>): Answer => ({
  status: 200,
  contentType: 'text/event-stream; charset=utf-8',
  stream,
});

/** An error in OpenAI's shape. */
export const errorAnswer = (status: number, message: string, type = 'invalid_request_error'): Answer => ({
  status,
  contentType: 'application/json',
  body: { bytes: JSON.stringify({ error: { message, type, param: null, code: null } }), tokens: 0 },
});

/** The creation time, in seconds, that all answers claim, so that they can be compared. */
export const createdSeconds = 1_764_000_000;

/** Output tokens of each choice: as the behaviour says, up to what the request allows. */
export function tokensOf({ behaviour, json }: TruthEntry): number {
  const allowed = json?.max_completion_tokens ?? json?.max_tokens;
  const wanted = behaviour.tokens ?? 16;
  return typeof allowed === 'number' ? Math.min(wanted, allowed) : wanted;
}

/** The text of the n-th token, counted from 0. */
export const tokenText = (index: number): string => `word${index} `;

export const textOf = (tokens: number): string =>
  Array.from({ length: tokens }, (_, index) => tokenText(index)).join('');
