import type { UpstreamHead } from '../upstream.ts';

/** An answer that is not strict HTTP/1.1 (RFC 9112): nothing further on its connection can be trusted. */
export class ProtocolError extends Error {}

const headersMax = 256;

/**
 * A whole head, without its last empty line. Refuses bare CR and LF, obs-fold, white space before a colon and control characters (RFC 9112
 * sections 2.2, 4, 5.1 and 5.2), which different parsers read differently.
 */
const strictHead =
  /^HTTP\/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*)*$/;
const strictTrailers = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n$/;

/** How the end of a body is recognised: by its length, by its last chunk, or by the end of the connection (RFC 9112 section 6.3). */
type Framing = { kind: 'length'; length: number } | { kind: 'chunked' } | { kind: 'close' };

/** The head of one answer, and what it implies for its body and its connection. */
export class ResponseHead implements UpstreamHead {
  readonly status: number;
  readonly framing: Framing;
  /** Whether another request may follow on the connection. */
  readonly keepsAlive: boolean;
  /** How long the server keeps an idle connection, as it says, in seconds. */
  readonly keepAliveSeconds: number | undefined;
  readonly #text: string;

  /** `text` is latin1, from the status line to the last header. Throws ProtocolError. */
  constructor(text: string) {
    if (!strictHead.test(text)) throw new ProtocolError('a malformed response head');
    this.#text = text;
    this.status = Number(text.slice(9, 12));
    const isOld = text.charCodeAt(7) === 0x30;
    let length: string | undefined;
    let coding: string | undefined;
    let connection = '';
    let keepAlive = '';
    let count = 0;
    for (let end = text.indexOf('\r\n'); end !== -1; ) {
      const start = end + 2;
      end = text.indexOf('\r\n', start);
      if (++count > headersMax) throw new ProtocolError(`more than ${headersMax} headers`);
      // No header that matters has a name of another length.
      const nameLength = text.indexOf(':', start) - start;
      if (nameLength !== 10 && nameLength !== 14 && nameLength !== 17) continue;
      const name = text.slice(start, start + nameLength).toLowerCase();
      const value = (): string => text.slice(start + nameLength + 1, end === -1 ? undefined : end).trim();
      if (name === 'content-length') {
        if (length !== undefined) throw new ProtocolError('two Content-Length headers');
        length = value();
      } else if (name === 'transfer-encoding') {
        if (coding !== undefined) throw new ProtocolError('two Transfer-Encoding headers');
        coding = value().toLowerCase();
      } else if (name === 'connection') connection += `,${value().toLowerCase()}`;
      else if (name === 'keep-alive') keepAlive = value();
    }
    this.framing = framingOf(this.status, length, coding, isOld);
    this.keepsAlive = !isOld && this.framing.kind !== 'close' && !/(?:^|,)\s*close\s*(?:,|$)/.test(connection);
    const seconds = /timeout=(\d{1,9})/i.exec(keepAlive)?.[1];
    this.keepAliveSeconds = seconds === undefined ? undefined : Number(seconds);
  }

  /** The first header of this lower-case name. */
  header(name: string): string | undefined {
    const text = this.#text;
    for (let end = text.indexOf('\r\n'); end !== -1; ) {
      const start = end + 2;
      end = text.indexOf('\r\n', start);
      if (text.charCodeAt(start + name.length) !== 0x3a) continue;
      if (text.slice(start, start + name.length).toLowerCase() !== name) continue;
      return text.slice(start + name.length + 1, end === -1 ? undefined : end).trim();
    }
    return undefined;
  }
}

function framingOf(status: number, length: string | undefined, coding: string | undefined, isOld: boolean): Framing {
  if (length !== undefined && coding !== undefined)
    throw new ProtocolError('both Content-Length and Transfer-Encoding');
  if (length !== undefined && !/^\d{1,15}$/.test(length)) throw new ProtocolError('a malformed Content-Length');
  // No other coding was requested, and HTTP/1.0 has none (RFC 9112 section 6.1).
  if (coding !== undefined && (coding !== 'chunked' || isOld)) throw new ProtocolError('an unknown Transfer-Encoding');
  if (status < 200) return { kind: 'length', length: 0 };
  if (status === 204 || status === 304) {
    // There is no body whatever the headers say; if they promise one, the connection is not reused.
    return coding === undefined && Number(length ?? 0) === 0 ? { kind: 'length', length: 0 } : { kind: 'close' };
  }
  if (coding !== undefined) return { kind: 'chunked' };
  return length === undefined ? { kind: 'close' } : { kind: 'length', length: Number(length) };
}

/** Trailers are checked like headers, and dropped. */
export function checkTrailers(text: string): void {
  if (!strictTrailers.test(text)) throw new ProtocolError('malformed trailers');
}
