/** What the sandbox answers to one call. The pieces are made while they are read, so that a paused exchange holds no backlog. */
export type Answer = {
  status: number;
  /** Names are lower case. */
  headers: Readonly<Record<string, string>>;
  pieces: Iterable<Uint8Array>;
};

/** A request which the sandbox turns down, in OpenAI's error vocabulary (openai-contract.md section 2). */
export class Refusal extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;

  constructor(message: string, { status = 400, param = null as string | null, code = null as string | null } = {}) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }
}

const wholeAnswer = (status: number, contentType: string, body: Uint8Array): Answer => ({
  status,
  headers: { 'content-type': contentType, 'content-length': String(body.length) },
  pieces: [body],
});

/** A JSON body with status 200. */
export const jsonAnswer = (value: unknown): Answer =>
  wholeAnswer(200, 'application/json', Buffer.from(JSON.stringify(value)));

/** A body of plain text. */
export const textAnswer = (contentType: string, text: string): Answer =>
  wholeAnswer(200, contentType, Buffer.from(text));

/** A body that comes in pieces, without a length. */
export const streamAnswer = (contentType: string, pieces: Iterable<Uint8Array>): Answer => ({
  status: 200,
  headers: { 'content-type': contentType },
  pieces,
});

export const sseContentType = 'text/event-stream; charset=utf-8';

/** One SSE frame around a JSON text. */
export const sseFrame = (json: string): Uint8Array => Buffer.from(`data: ${json}\n\n`);

/** One SSE frame with an event name, as image and audio streams have it; the name is the value's `type`. */
export const sseEvent = (value: { type: string; [field: string]: unknown }): Uint8Array =>
  Buffer.from(`event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`);

/** An error body. */
export function errorAnswer(
  status: number,
  message: string,
  param: string | null = null,
  code: string | null = null,
): Answer {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error';
  return wholeAnswer(
    status,
    'application/json',
    Buffer.from(JSON.stringify({ error: { message, type, param, code } })),
  );
}
