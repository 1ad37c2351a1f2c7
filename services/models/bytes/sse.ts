import { GrowingBuffer } from '#shared/growing-buffer.ts';

/**
 * A frame of an event stream: its lines with the blank line that ends them. The same object is reused for each frame, so it is valid only
 * until the next one; the bytes themselves stay unchanged.
 */
export type SseFrame = {
  /** The frame as it came is `bytes[start, end)`. */
  bytes: Buffer;
  start: number;
  end: number;
  /** The event's data is `data[dataStart, dataEnd)`; `dataStart` is -1 when the frame has none and therefore makes no event. */
  data: Buffer;
  dataStart: number;
  dataEnd: number;
  /** The event's name; empty for most. */
  event: string;
  /** Whether a line is neither a comment nor a field of the standard: a web page, or compressed bytes. */
  hasGarbage: boolean;
  /** The value of an `error:` line, which llama.cpp writes although the standard has no such field. */
  error: string | null;
};

/** A frame longer than this ends a stream, unless that is of chats or images, which come in larger ones. */
export const frameBytesMax = 4 * 1024 * 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Cuts an event stream (WHATWG HTML, 9.2) into frames, however it is split into chunks. A frame in one chunk with one data line is found
 * without copying. A byte order mark at the start is dropped.
 */
export class SseSplitter {
  readonly #onFrame: (frame: SseFrame) => void;
  readonly #bytesMax: number;
  readonly #frame: SseFrame;
  /** A frame that has begun but not ended, unless it is a plain one. */
  readonly #held = new GrowingBuffer();
  #lineStart = 0;
  /** The positions of its data lines in `#held`: start, end, start, end… */
  #dataLines: number[] = [];
  #event = '';
  #hasGarbage = false;
  #error: string | null = null;
  /** Bytes of the byte order mark seen so far; 3 when there is nothing more to look for. */
  #markBytes = 0;
  /** The last chunk ended with a carriage return: that ends a line, but a line feed may still belong to it. */
  #returnPending = false;
  #broken = false;

  /** @param bytesMax a longer frame breaks the stream. */
  constructor(onFrame: (frame: SseFrame) => void, bytesMax: number = frameBytesMax) {
    this.#onFrame = onFrame;
    this.#bytesMax = bytesMax;
    const empty = Buffer.alloc(0);
    this.#frame = {
      bytes: empty,
      start: 0,
      end: 0,
      data: empty,
      dataStart: -1,
      dataEnd: -1,
      event: '',
      hasGarbage: false,
      error: null,
    };
  }

  /** Bytes of the unfinished frame. */
  get heldBytes(): number {
    return this.#held.length;
  }

  /** Takes the next bytes; returns false, from then on, when a frame is too long. */
  push(chunk: Buffer): boolean {
    if (this.#broken) return false;
    let position = this.#markBytes === 3 ? 0 : this.#skipMark(chunk);
    if (this.#returnPending && position < chunk.length) position = this.#resumeAfterReturn(chunk, position);
    let nextReturn = find(chunk, carriageReturn, position);
    while (position < chunk.length && !this.#broken) {
      if (this.#held.length === 0 && nextReturn === chunk.length) {
        position = this.#plainFrames(chunk, position);
        if (position === chunk.length) break;
      }
      const nextFeed = find(chunk, lineFeed, position);
      if (nextReturn < position) nextReturn = find(chunk, carriageReturn, position);
      const lineEnd = Math.min(nextFeed, nextReturn);
      if (lineEnd === chunk.length) {
        this.#hold(chunk, position, chunk.length);
        break;
      }
      const contentEnd = this.#held.length + lineEnd - position;
      let next = lineEnd + 1;
      if (lineEnd === nextReturn) {
        if (next === chunk.length) this.#returnPending = true;
        else if (chunk[next] === lineFeed) next += 1;
      }
      this.#hold(chunk, position, next);
      position = next;
      if (!this.#returnPending) this.#endLine(contentEnd);
    }
    return !this.#broken;
  }

  /** The stream has ended: a frame without its blank line counts all the same, since some upstreams omit it. */
  end(): void {
    if (this.#broken || this.#held.length === 0) return;
    if (this.#returnPending) {
      this.#returnPending = false;
      this.#endLine(this.#held.length - 1);
    } else if (this.#held.length > this.#lineStart) {
      const contentEnd = this.#held.length;
      this.#hold(lineEndBytes, 0, 1);
      this.#endLine(contentEnd);
    }
    if (this.#held.length === 0) return;
    this.#hold(lineEndBytes, 0, 1);
    this.#endLine(this.#held.length - 1);
  }

  /** Delivers frames of the form `data: …`, line feed, line feed from a position on; returns where they end. */
  #plainFrames(chunk: Buffer, position: number): number {
    const frame = this.#frame;
    // d, a, t, a and a colon.
    while (
      chunk[position] === 0x64 &&
      chunk[position + 1] === 0x61 &&
      chunk[position + 2] === 0x74 &&
      chunk[position + 3] === 0x61 &&
      chunk[position + 4] === 0x3a
    ) {
      const lineEnd = chunk.indexOf(lineFeed, position + 5);
      if (lineEnd === -1 || lineEnd + 1 >= chunk.length || chunk[lineEnd + 1] !== lineFeed) break;
      frame.bytes = chunk;
      frame.start = position;
      frame.end = lineEnd + 2;
      frame.data = chunk;
      frame.dataStart = chunk[position + 5] === 0x20 ? position + 6 : position + 5;
      frame.dataEnd = lineEnd;
      frame.event = '';
      frame.hasGarbage = false;
      frame.error = null;
      position = lineEnd + 2;
      this.#onFrame(frame);
      if (position >= chunk.length) return chunk.length;
    }
    return position;
  }

  #skipMark(chunk: Buffer): number {
    let position = 0;
    while (this.#markBytes < 3 && position < chunk.length) {
      if (chunk[position] !== byteOrderMark[this.#markBytes]) {
        this.#hold(byteOrderMark, 0, this.#markBytes);
        this.#markBytes = 3;
        return position;
      }
      this.#markBytes += 1;
      position += 1;
    }
    return position;
  }

  #resumeAfterReturn(chunk: Buffer, position: number): number {
    this.#returnPending = false;
    const contentEnd = this.#held.length - 1;
    const next = chunk[position] === lineFeed ? position + 1 : position;
    this.#hold(chunk, position, next);
    this.#endLine(contentEnd);
    return next;
  }

  #hold(source: Buffer, start: number, end: number): void {
    if (this.#held.length + end - start > this.#bytesMax) this.#broken = true;
    else this.#held.append(source, start, end);
  }

  /** A line of the held frame is complete: its content ends at `contentEnd`, and its line break is the last of the held bytes. */
  #endLine(contentEnd: number): void {
    if (this.#broken) return;
    const lineStart = this.#lineStart;
    this.#lineStart = this.#held.length;
    if (contentEnd === lineStart) {
      this.#endFrame();
      return;
    }
    const bytes = this.#held.view();
    const colonAt = bytes.indexOf(0x3a, lineStart);
    const nameEnd = colonAt === -1 ? contentEnd : Math.min(colonAt, contentEnd);
    const hasValue = nameEnd < contentEnd;
    let valueStart = hasValue ? nameEnd + 1 : contentEnd;
    if (valueStart < contentEnd && bytes[valueStart] === 0x20) valueStart += 1;
    switch (bytes.toString('latin1', lineStart, Math.min(nameEnd, lineStart + 6))) {
      case 'data':
        this.#dataLines.push(valueStart, contentEnd);
        break;
      case 'event':
        this.#event = bytes.toString('utf8', valueStart, contentEnd);
        break;
      case 'error':
        this.#error = bytes.toString('utf8', valueStart, contentEnd);
        break;
      case '':
      case 'id':
      case 'retry':
        break;
      default:
        this.#hasGarbage = true;
    }
  }

  #endFrame(): void {
    const frame = this.#frame;
    const lines = this.#dataLines;
    frame.event = this.#event;
    frame.hasGarbage = this.#hasGarbage;
    frame.error = this.#error;
    const bytes = this.#held.take();
    this.#lineStart = 0;
    this.#event = '';
    this.#hasGarbage = false;
    this.#error = null;
    frame.bytes = bytes;
    frame.start = 0;
    frame.end = bytes.length;
    frame.data = bytes;
    frame.dataStart = lines[0] ?? -1;
    frame.dataEnd = lines[1] ?? -1;
    if (lines.length > 2) {
      frame.data = joinLines(bytes, lines);
      frame.dataStart = 0;
      frame.dataEnd = frame.data.length;
    }
    if (lines.length > 0) this.#dataLines = [];
    this.#onFrame(frame);
  }
}

const lineEndBytes = Buffer.from([lineFeed]);

/** Several data lines make one text, with a line feed between. */
function joinLines(bytes: Buffer, lines: readonly number[]): Buffer {
  const parts: Uint8Array[] = [];
  for (let index = 0; index < lines.length; index += 2) {
    if (index > 0) parts.push(lineEndBytes);
    parts.push(bytes.subarray(lines[index]!, lines[index + 1]!));
  }
  return Buffer.concat(parts);
}

/** Makes well-formed JSON the data of an event, in place: its line breaks, which would split the data, become spaces. */
export function toOneLine(json: Buffer): void {
  for (const lineEnd of [lineFeed, carriageReturn]) {
    for (let at = json.indexOf(lineEnd); at !== -1; at = json.indexOf(lineEnd, at + 1)) json[at] = 0x20;
  }
}

/** The next position of the byte; the length when there is none. */
function find(chunk: Buffer, byte: number, position: number): number {
  const found = chunk.indexOf(byte, position);
  return found === -1 ? chunk.length : found;
}
