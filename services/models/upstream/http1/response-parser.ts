import { checkTrailers, ProtocolError, ResponseHead } from './response-head.ts';

/** The longest response head that is read, including those of 1xx answers before it; trailers have the same bound. */
export const headBytesMax = 32 * 1024;
/** Bodies of a known length, up to this one, are gathered in one buffer. */
export const gatheredBytesMax = 1024 * 1024;
/** The longest line before a chunk, with its size and extensions. */
const chunkLineBytesMax = 1024;

const cr = 0x0d;
const lf = 0x0a;
const nothing = Buffer.alloc(0);
const headEnd = Buffer.from('\r\n\r\n');
const protocolName = 'HTTP/1.';

type State =
  | 'head'
  | 'length'
  | 'close'
  | 'size'
  | 'extension'
  | 'sizeEnd'
  | 'chunk'
  | 'chunkCr'
  | 'chunkLf'
  | 'trailers'
  | 'done';

/**
 * Reads one answer (RFC 9112) from pieces as they come. After each `push`: `head` once it is complete, `data` with the piece's part of the
 * body, in memory of its own, and `done`. The pieces of a body of known length are adjacent in one buffer, so that nobody who wants it
 * whole has to copy it again.
 */
export class ResponseParser {
  head: ResponseHead | null = null;
  data: Buffer = nothing;
  /** Whether bytes came after the end of the answer. */
  surplus = false;
  #state: State = 'head';
  /** Bytes left of the body, or of its current chunk. */
  #left = 0;
  /** A body of known length that comes in several pieces. */
  #gathered: Buffer | null = null;
  #lineBytes = 0;
  #headBytes = 0;
  /** A head that has arrived only in part, and how much of it. */
  #partial: Buffer | null = null;
  #partialBytes = 0;
  #trailers = '';

  get done(): boolean {
    return this.#state === 'done';
  }

  /** Whether the answer is complete, given that the connection has ended. */
  get doneAtClose(): boolean {
    return this.#state === 'close' || this.done;
  }

  /** Prepares for the next answer on the same connection. */
  reset(): void {
    this.head = null;
    this.data = nothing;
    this.surplus = false;
    this.#state = 'head';
    this.#headBytes = 0;
    this.#gathered = null;
    this.#partial = null;
    this.#trailers = '';
  }

  /** Throws ProtocolError, after which nothing more may be read. `piece` may be overwritten afterwards. */
  push(piece: Buffer): void {
    this.data = nothing;
    let at = 0;
    while (this.#state === 'head' && at < piece.length) at = this.#readHead(piece, at);
    if (at < piece.length && this.#state !== 'done') at = this.#readBody(piece, at);
    if (at < piece.length) this.surplus = true;
  }

  #readHead(piece: Buffer, at: number): number {
    if (this.#partial !== null) return this.#readPartialHead(piece, at, this.#partial);
    const end = piece.indexOf(headEnd, at);
    if (end === -1) {
      const partial = Buffer.allocUnsafe(headBytesMax);
      this.#partial = partial;
      this.#partialBytes = 0;
      return this.#readPartialHead(piece, at, partial);
    }
    this.#headBytes += end + 4 - at;
    if (this.#headBytes > headBytesMax) throw new ProtocolError('a response head that is too large');
    this.#headRead(piece.toString('latin1', at, end));
    return end + 4;
  }

  /** Byte by byte, since heads seldom come in parts; what cannot be a head is detected before its end. */
  #readPartialHead(piece: Buffer, from: number, partial: Buffer): number {
    let length = this.#partialBytes;
    for (let at = from; at < piece.length; at++) {
      if (this.#headBytes >= headBytesMax) throw new ProtocolError('a response head that is too large');
      const byte = piece[at]!;
      if (length < protocolName.length && byte !== protocolName.charCodeAt(length)) {
        throw new ProtocolError('no HTTP/1.x answer');
      }
      if (byte === lf && partial[length - 1] !== cr) throw new ProtocolError('a bare LF in a response head');
      partial[length++] = byte;
      this.#headBytes++;
      if (byte === lf && length >= 4 && partial[length - 3] === lf) {
        this.#partial = null;
        this.#headRead(partial.toString('latin1', 0, length - 4));
        return at + 1;
      }
    }
    this.#partialBytes = length;
    return piece.length;
  }

  #headRead(text: string): void {
    const head = new ResponseHead(text);
    if (head.status === 101) throw new ProtocolError('an upgrade that nobody asked for');
    if (head.status < 200) return;
    this.head = head;
    const { framing } = head;
    if (head.status === 204 || head.status === 304) this.#state = 'done';
    else if (framing.kind === 'length') {
      this.#left = framing.length;
      this.#state = framing.length === 0 ? 'done' : 'length';
    } else if (framing.kind === 'chunked') this.#startChunk();
    else this.#state = 'close';
  }

  #readBody(piece: Buffer, at: number): number {
    switch (this.#state) {
      case 'close':
        this.data = Buffer.from(piece.subarray(at));
        return piece.length;
      case 'length': {
        const end = Math.min(piece.length, at + this.#left);
        this.data = this.#gather(piece.subarray(at, end));
        this.#left -= end - at;
        if (this.#left === 0) this.#state = 'done';
        return end;
      }
      default:
        return this.#readChunks(piece, at);
    }
  }

  #gather(piece: Buffer): Buffer {
    if (this.#gathered === null) {
      if (piece.length === this.#left || this.#left > gatheredBytesMax) return Buffer.from(piece);
      this.#gathered = Buffer.allocUnsafeSlow(this.#left);
    }
    const start = this.#gathered.length - this.#left;
    piece.copy(this.#gathered, start);
    return this.#gathered.subarray(start, start + piece.length);
  }

  #startChunk(): void {
    this.#left = 0;
    this.#lineBytes = 0;
    this.#state = 'size';
  }

  #readChunks(piece: Buffer, from: number): number {
    const data = Buffer.allocUnsafe(piece.length - from);
    let filled = 0;
    let at = from;
    try {
      while (at < piece.length && this.#state !== 'done') {
        if (this.#state === 'chunk') {
          const end = Math.min(piece.length, at + this.#left);
          filled += piece.copy(data, filled, at, end);
          this.#left -= end - at;
          at = end;
          if (this.#left === 0) this.#state = 'chunkCr';
        } else this.#readFrame(piece[at++]!);
      }
    } finally {
      // What came before a malformed chunk still belongs to the body.
      this.data = data.subarray(0, filled);
      // Extensions, or the framing of single bytes, may be a thousand times as long, and would stay in memory with it.
      if (filled < data.length / 2) this.data = Buffer.from(this.data);
    }
    return at;
  }

  /** One byte of the framing around the chunks (RFC 9112 section 7.1). */
  #readFrame(byte: number): void {
    switch (this.#state) {
      case 'size': {
        const digit = hexDigit(byte);
        if (digit >= 0) {
          if (++this.#lineBytes > 12) throw new ProtocolError('a chunk that is too large');
          this.#left = this.#left * 16 + digit;
          return;
        }
        if (this.#lineBytes === 0) throw new ProtocolError('a chunk without a size');
        if (byte === cr) this.#state = 'sizeEnd';
        else if (byte === 0x3b || byte === 0x20 || byte === 0x09) this.#state = 'extension';
        else throw new ProtocolError('a malformed chunk size');
        return;
      }
      case 'extension':
        if (byte === cr) this.#state = 'sizeEnd';
        else if ((byte < 0x20 && byte !== 0x09) || byte === 0x7f)
          throw new ProtocolError('a malformed chunk extension');
        else if (++this.#lineBytes > chunkLineBytesMax) throw new ProtocolError('a chunk extension that is too long');
        return;
      case 'sizeEnd':
        if (byte !== lf) throw new ProtocolError('a bare CR after a chunk size');
        this.#state = this.#left === 0 ? 'trailers' : 'chunk';
        return;
      case 'chunkCr':
        if (byte !== cr) throw new ProtocolError('a chunk that is longer than its size');
        this.#state = 'chunkLf';
        return;
      case 'chunkLf':
        if (byte !== lf) throw new ProtocolError('a bare CR after a chunk');
        this.#startChunk();
        return;
      default:
        this.#readTrailer(byte);
    }
  }

  #readTrailer(byte: number): void {
    this.#trailers += String.fromCharCode(byte);
    if (this.#trailers.length > headBytesMax) throw new ProtocolError('trailers that are too large');
    if (byte !== lf) return;
    if (this.#trailers !== '\r\n' && !this.#trailers.endsWith('\r\n\r\n')) return;
    checkTrailers(this.#trailers);
    this.#state = 'done';
  }
}

/** The value of a hexadecimal digit; -1 for any other byte. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
