import { crc32 } from 'node:zlib';

/**
 * A frame is [u32 payload length][u32 CRC-32 of the payload][payload], little-endian. The payload is JSON text and
 * never empty: eight zero bytes, which a file system may leave behind after a power loss, are not a frame.
 */
export const frameHeaderBytes = 8;

/** A longer length is damage, not a frame, so that a flipped bit cannot make a reader wait for gigabytes. */
export const payloadBytesMax = 1 << 20;

const bufferBytes = 64 * 1024;
const bufferBytesKept = 1 << 20;

/** Frames on their way to the file: one growing buffer, so that the records of a loop turn are written at once. */
export class FrameBuffer {
  #bytes = Buffer.allocUnsafeSlow(bufferBytes);
  #end = 0;

  get length(): number {
    return this.#end;
  }

  /**
   * Adds a frame whose payload is the pieces in sequence; joined here, since joining strings first costs more than everything else. Throws
   * a RangeError for a payload that is empty or longer than `payloadBytesMax`.
   */
  append(head: string, middle = '', tail = ''): void {
    // UTF-8 needs at most three bytes per UTF-16 unit.
    this.#reserve(frameHeaderBytes + (head.length + middle.length + tail.length) * 3);
    const payloadStart = this.#end + frameHeaderBytes;
    let payloadEnd = payloadStart + this.#bytes.write(head, payloadStart, 'utf8');
    payloadEnd += this.#bytes.write(middle, payloadEnd, 'utf8');
    payloadEnd += this.#bytes.write(tail, payloadEnd, 'utf8');
    const length = payloadEnd - payloadStart;
    if (length === 0 || length > payloadBytesMax) {
      throw new RangeError(`a journal record of ${length} bytes is not between 1 and ${payloadBytesMax}`);
    }
    this.#bytes.writeUInt32LE(length, this.#end);
    this.#bytes.writeUInt32LE(crc32(this.#bytes.subarray(payloadStart, payloadEnd)), this.#end + 4);
    this.#end = payloadEnd;
  }

  /**
   * Hands the waiting bytes to `write`, which returns how many it took. If it throws, all of them keep waiting, so that they begin with a
   * frame.
   */
  drain(write: (bytes: Buffer, offset: number, length: number) => number): void {
    let sent = 0;
    while (sent < this.#end) sent += write(this.#bytes, sent, this.#end - sent);
    this.#end = 0;
    // A disk outage may have made it large.
    if (this.#bytes.length > bufferBytesKept) this.#bytes = Buffer.allocUnsafeSlow(bufferBytes);
  }

  #reserve(bytes: number): void {
    if (this.#end + bytes <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.length + bytes));
    this.#bytes.copy(larger, 0, 0, this.#end);
    this.#bytes = larger;
  }
}

/** What follows the last good frame: nothing, the beginning of a frame (a torn write), or bytes that cannot be one. */
type FrameTail = 'end' | 'torn' | 'damaged';

export type ParsedFrames = {
  payloads: string[];
  /** For each payload, the offset after its frame. */
  ends: number[];
  /** The offset after the last good frame. */
  end: number;
  tail: FrameTail;
};

/** Reads the checksummed prefix of `bytes`. Never throws: whatever follows the prefix is described by `tail`. */
export function parseFrames(bytes: Buffer): ParsedFrames {
  const payloads: string[] = [];
  const ends: number[] = [];
  let end = 0;
  const stop = (tail: FrameTail): ParsedFrames => ({ payloads, ends, end, tail });
  while (bytes.length - end >= frameHeaderBytes) {
    const length = bytes.readUInt32LE(end);
    if (length === 0) return stop(isZero(bytes.subarray(end)) ? 'torn' : 'damaged');
    if (length > payloadBytesMax) return stop('damaged');
    const payloadStart = end + frameHeaderBytes;
    if (payloadStart + length > bytes.length) return stop('torn');
    const payload = bytes.subarray(payloadStart, payloadStart + length);
    if (crc32(payload) !== bytes.readUInt32LE(end + 4)) return stop('damaged');
    end = payloadStart + length;
    payloads.push(payload.toString('utf8'));
    ends.push(end);
  }
  return stop(end === bytes.length ? 'end' : 'torn');
}

const isZero = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0);
