import { type ClientHttp2Stream, constants, type Http2Session, type SecureClientSessionOptions } from 'node:http2';
import { connect as connectInClear, isIP } from 'node:net';
import { type ConnectionOptions, connect as connectByTls } from 'node:tls';
import { Code, ConnectError } from '@connectrpc/connect';
import { Http2SessionManager } from '@connectrpc/connect-node';
import { sessionOptions } from './session-options.ts';

/** How often a connection is probed within the time that it may be silent. */
const pingsPerSilence = 2;

/**
 * The HTTP/2 session of a client transport, opened when needed and again after a loss.
 *
 * A dying session reports its error only once its socket has closed. Connect stops listening as soon as the next call finds it dead, or the
 * transport is closed, and an unhandled `error` event would end the process: a frozen service could take its callers along.
 *
 * Connect's own pings are off: it forgets an unanswered one as soon as the last call ends or a first one begins, and would then keep a
 * session whose other side is gone, failing each new call, until the system gives the connection up.
 */
export class ClientSessions extends Http2SessionManager {
  // Node drops the brackets of an IPv6 address (RFC 3986 section 3.2.2).
  readonly #host = new URL(this.authority).host;
  readonly #silenceMs: number;

  /** `silenceMs`: how long the other side may be silent before a session, or a connection that is being made, is given up. */
  constructor(url: string, { tls, silenceMs }: { tls: ConnectionOptions | undefined; silenceMs: number }) {
    super(url, {}, { ...sessionOptions, ...tls, createConnection: connectWithin(silenceMs) });
    this.#silenceMs = silenceMs;
  }

  override async request(
    ...[method, path, headers, options]: Parameters<Http2SessionManager['request']>
  ): Promise<ClientHttp2Stream> {
    const stream = await super.request(method, path, { ...headers, ':authority': this.#host }, options);
    resetWithoutEnd(stream);
    const { session } = stream;
    if (session?.listenerCount('error', ignoreError) === 0) {
      session.on('error', ignoreError);
      endWhenSilent(session, this.#silenceMs);
    }
    return stream;
  }
}

/**
 * When a stream is closed, Node first ends what it sends and then resets it: a call given up before its message was sent would arrive as
 * one with an empty message, which the other side may begin.
 */
function resetWithoutEnd(stream: ClientHttp2Stream): void {
  const close = stream.close.bind(stream);
  stream.close = (code, callback) => {
    if (code !== undefined && code !== constants.NGHTTP2_NO_ERROR) stream.end = () => stream;
    close(code, callback);
  };
}

/** A session's calls have failed with it already. */
const ignoreError = (): void => {};

/**
 * Ends a session whose other side answers no ping. Pings are counted, so that a process that was itself suspended first reads what has
 * arrived.
 */
function endWhenSilent(session: Http2Session, silenceMs: number): void {
  let unanswered = 0;
  const pinging = setInterval(() => {
    if (session.destroyed) return;
    if (unanswered === pingsPerSilence) {
      session.destroy(unavailable(`no ping was answered for ${silenceMs} ms`), constants.NGHTTP2_CANCEL);
      return;
    }
    unanswered += 1;
    session.ping(() => {
      unanswered = 0;
    });
  }, silenceMs / pingsPerSilence).unref();
  session.once('close', () => clearInterval(pinging));
}

/** Node waits for a connection as long as the system does, which is minutes, and forever for its TLS handshake. */
function connectWithin(silenceMs: number): NonNullable<SecureClientSessionOptions['createConnection']> {
  return ({ protocol, hostname, port }, options) => {
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const isTls = protocol === 'https:';
    const socket = isTls
      ? connectByTls({
          ...options,
          host,
          port: Number(port || 443),
          ALPNProtocols: ['h2'],
          ...(isIP(host) === 0 && { servername: host }),
        })
      : connectInClear({ host, port: Number(port || 80) });
    const late = setTimeout(() => socket.destroy(unavailable(`no connection within ${silenceMs} ms`)), silenceMs);
    const decided = (): void => clearTimeout(late);
    return socket.once(isTls ? 'secureConnect' : 'connect', decided).once('close', decided);
  };
}

const unavailable = (text: string): ConnectError => new ConnectError(text, Code.Unavailable);
