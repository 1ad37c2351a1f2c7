import type { IncomingMessage } from 'node:http';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { type OperationSending, operationsByPath } from '#shared/operations.ts';

export type SimulatedOperation =
  | 'chat'
  | 'completions'
  | 'embeddings'
  | 'images'
  | 'transcriptions'
  | 'translations'
  | 'speech'
  | 'models'
  | 'unknown';

/** One without a row does not compile. */
const operations: Readonly<Record<OperationSending<'json' | 'form'>, SimulatedOperation>> = {
  [Operation.CHAT_COMPLETIONS]: 'chat',
  [Operation.COMPLETIONS]: 'completions',
  [Operation.EMBEDDINGS]: 'embeddings',
  [Operation.IMAGES_GENERATIONS]: 'images',
  [Operation.AUDIO_TRANSCRIPTIONS]: 'transcriptions',
  [Operation.AUDIO_TRANSLATIONS]: 'translations',
  [Operation.AUDIO_SPEECH]: 'speech',
};
const byPath = new Map<string, SimulatedOperation>([['/models', 'models']]);
for (const [path, operation] of operationsByPath('json', 'form')) byPath.set(path, operations[operation]);

/** The operation for a path, with or without /v1 at its start. */
export const operationAt = (path: string): SimulatedOperation =>
  byPath.get(path.replace(/\?.*$/, '').replace(/^\/v1(?=\/)/, '')) ?? 'unknown';

/** The whole body; empty if the client left before its end. */
export function readBody(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)));
    request.on('error', () => resolve(Buffer.alloc(0)));
  });
}

export function parseJson(body: Buffer): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

export type FormPart = { name: string; fileName: string | null; contentType: string | null; bytes: Buffer };

/** The parts of a multipart/form-data body (RFC 7578), in order. */
export function parseForm(contentType: string | undefined, body: Buffer): FormPart[] {
  const boundary = /^multipart\/form-data;.*boundary="?([^";]+)/i.exec(contentType ?? '')?.[1];
  if (boundary === undefined) return [];
  const parts: FormPart[] = [];
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first delimiter has no line break before it.
  const bytes = Buffer.concat([Buffer.from('\r\n'), body]);
  let start = bytes.indexOf(delimiter);
  while (start !== -1) {
    const end = bytes.indexOf(delimiter, start + delimiter.length);
    const headEnd = bytes.indexOf('\r\n\r\n', start);
    if (end === -1 || headEnd === -1 || headEnd > end) break;
    const head = bytes.toString('utf8', start + delimiter.length, headEnd);
    parts.push({
      name: /[; ]name="([^"]*)"/i.exec(head)?.[1] ?? '',
      fileName: /filename="([^"]*)"/i.exec(head)?.[1] ?? null,
      contentType: /content-type:\s*(\S+)/i.exec(head)?.[1] ?? null,
      bytes: bytes.subarray(headEnd + 4, end),
    });
    start = end;
  }
  return parts;
}

/** Input tokens by a rule that a test can repeat: one for every four characters of the texts in messages, prompt or input. */
export function promptTokensOf(json: Record<string, unknown> | null): number {
  const characters = charactersIn(json?.messages) + charactersIn(json?.prompt) + charactersIn(json?.input);
  return Math.ceil(characters / 4);
}

function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length;
  // A token number, as embeddings accept them, counts as one token.
  if (typeof value === 'number') return 4;
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + charactersIn(item), 0);
  if (typeof value === 'object' && value !== null) {
    const { content, text } = value as { content?: unknown; text?: unknown };
    return charactersIn(content) + charactersIn(text);
  }
  return 0;
}
