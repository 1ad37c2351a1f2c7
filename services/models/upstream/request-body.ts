import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { BodyPiece } from './upstream.ts';

/** The length of a body, for Content-Length. */
export const bodyLength = (pieces: readonly BodyPiece[]): number =>
  pieces.reduce((sum, piece) => sum + (piece instanceof Uint8Array ? piece.byteLength : piece.end - piece.start), 0);

/** The body as one buffer, when no part of it lies in a file; else null. */
function bodyInMemory(pieces: readonly BodyPiece[]): Uint8Array | null {
  if (!pieces.every((piece) => piece instanceof Uint8Array)) return null;
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}

/** The body as a stream; files are read as it is sent. */
export const bodyStream = (pieces: readonly BodyPiece[]): Readable =>
  Readable.from(piecesOf(pieces), { objectMode: false });

async function* piecesOf(pieces: readonly BodyPiece[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) yield piece;
    else if (piece.end > piece.start) yield* createReadStream(piece.file, { start: piece.start, end: piece.end - 1 });
  }
}

/** The body with all files read. */
export async function readBody(pieces: readonly BodyPiece[]): Promise<Uint8Array> {
  const inMemory = bodyInMemory(pieces);
  if (inMemory !== null) return inMemory;
  const read = pieces.map(async (piece) => {
    if (piece instanceof Uint8Array) return piece;
    const handle = await open(piece.file);
    try {
      const bytes = Buffer.allocUnsafe(piece.end - piece.start);
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, piece.start);
      if (bytesRead !== bytes.length) throw new Error('the file of a request body is shorter than it was');
      return bytes;
    } finally {
      await handle.close();
    }
  });
  return Buffer.concat(await Promise.all(read));
}
