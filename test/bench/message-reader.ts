/** A whole HTTP/1.1 message: the head with its start line, and the body without its chunk framing. */
type Message = { head: string; body: Buffer };

/**
 * Reads one HTTP/1.1 message at a time from a connection. It understands what the benchmark's contenders send (a Content-Length, or chunks
 * without trailers) and nothing more, since its cost limits how much load can be generated.
 */
export class MessageReader {
  #parts: Buffer[] = [];
  #size = 0;
  #head = '';
  #bodyAt = 0;
  /** In bytes, including the head; -1 while only the last chunk will show the end. */
  #wholeSize = 0;

  /** Whether part of the body of an incomplete message has arrived. */
  get hasBody(): boolean {
    return this.#bodyAt > 0 && this.#size > this.#bodyAt;
  }

  /** The message that these bytes complete, if any. The bytes must not change afterwards. */
  push(data: Buffer): Message | undefined {
    this.#parts.push(data);
    this.#size += data.length;
    if (this.#bodyAt === 0 && !this.#readHead()) return undefined;
    const chunked = this.#wholeSize < 0;
    if (chunked ? !this.#endsWithLastChunk() : this.#size < this.#wholeSize) return undefined;
    const all = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    const body = all.subarray(this.#bodyAt);
    const message = { head: this.#head, body: chunked ? unchunked(body) : body };
    this.#parts = [];
    this.#size = 0;
    this.#bodyAt = 0;
    return message;
  }

  #readHead(): boolean {
    if (this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)];
    const data = this.#parts[0]!;
    const end = data.indexOf('\r\n\r\n');
    if (end < 0) return false;
    this.#head = data.toString('latin1', 0, end);
    this.#bodyAt = end + 4;
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.#head);
    if (length !== null) this.#wholeSize = this.#bodyAt + Number(length[1]);
    else this.#wholeSize = /\r\ntransfer-encoding: *chunked/i.test(this.#head) ? -1 : this.#bodyAt;
    return true;
  }

  #endsWithLastChunk(): boolean {
    let tail = this.#parts.at(-1)!;
    for (let part = this.#parts.length - 2; tail.length < 7 && part >= 0; part -= 1) {
      tail = Buffer.concat([this.#parts[part]!, tail]);
    }
    const text = tail.subarray(-7).toString('latin1');
    // An empty body consists of the last chunk alone.
    return text.endsWith('\r\n0\r\n\r\n') || (text.endsWith('0\r\n\r\n') && this.#size === this.#bodyAt + 5);
  }
}

function unchunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = body.indexOf('\r\n', at);
    const length = Number.parseInt(body.toString('latin1', at, lineEnd), 16);
    if (!(length > 0)) return Buffer.concat(parts);
    parts.push(body.subarray(lineEnd + 2, lineEnd + 2 + length));
    at = lineEnd + 2 + length + 2;
  }
}
