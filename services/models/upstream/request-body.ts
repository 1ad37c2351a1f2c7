import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import type { BodyPiece } from './upstream.ts';

/** The length of a body, for Content-Length. */
export const bodyLength = (pieces: readonly BodyPiece[]): number =>
  pieces.reduce((sum, piece) => sum + (piece instanceof Uint8Array ? piece.byteLength : piece.end - piece.start), 0);

/** The body as a stream; files are read as it is sent. */
export const bodyStream = (pieces: readonly BodyPiece[]): Readable =>
  Readable.from(piecesOf(pieces), { objectMode: false });

async function* piecesOf(pieces: readonly BodyPiece[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) yield piece;
    else if (piece.end > piece.start) yield* createReadStream(piece.file, { start: piece.start, end: piece.end - 1 });
  }
}
