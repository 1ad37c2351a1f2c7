import { type ClientHttp2Stream, constants, type Http2Session, type SecureClientSessionOptions } from 'node:http2';
import { connect as connectInClear, isIP } from 'node:net';
import { type ConnectionOptions, connect as connectByTls, type SecureContextOptions } from 'node:tls';
import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { callerAmong } from './caller.ts';
import { fromConnectError } from './connect-errors.ts';
import { effectiveTimeoutMs, unaryTimeoutMsDefault } from './deadline.ts';
import { InterruptibleStream } from './interruptible-stream.ts';
import type { ServiceTokens } from './service-token.ts';
import { sessionOptions } from './session-options.ts';

export type RpcClientTransportOptions = {
  /** Where the services listen, e.g. `http://keys:7001` (h2c) or `https://keys:7001`. */
  url: string;
  /** Signs each call that has a caller; without it only health can be called. */
  tokens?: ServiceTokens;
  /** The authorities that an https URL is trusted by. */
  tls?: Pick<SecureContextOptions, 'ca' | 'allowPartialTrustChain'> & Pick<ConnectionOptions, 'checkServerIdentity'>;
  interceptors?: readonly Interceptor[];
  /** How long the other side may be silent, in milliseconds. */
  silenceMs?: number;
};

export type RpcClientTransport = Transport & {
  /** Closes the connection, and with it every running call. */
  close(): void;
};

/**
 * A connection that was silent for this long counts as dead: its calls fail with OVERLOADED, and so do those that wait for a connection.
 * Longer than either process may be kept from its event loop, by a garbage collection or for lack of a core: calls have their own
 * deadlines, and giving up a connection fails all of them.
 */
const silenceMsDefault = 10_000;
/** How often a connection is probed within the time that it may be silent. */
const pingsPerSilence = 2;
/** The largest response message accepted, in bytes: a job whose result is images, which may have 256 MiB. */
const readMaxBytes = 260 * 1024 * 1024;

/**
 * A transport to another process by the Connect protocol over one HTTP/2 connection, opened when needed and reopened after a loss. Unary
 * calls have a default deadline; failures are GatewayErrors; leaving a stream cancels it.
 */
export function createRpcClientTransport(options: RpcClientTransportOptions): RpcClientTransport {
  const { url, tokens, tls, interceptors = [], silenceMs = silenceMsDefault } = options;
  const sessionManager = new OutlivingSessions(url, { ...sessionOptions, ...tls }, silenceMs);
  const connect = createConnectTransport({
    baseUrl: url,
    httpVersion: '2',
    sessionManager,
    acceptCompression: [],
    readMaxBytes,
    interceptors: [...interceptors, onceMoreIfRefused, ...(tokens ? [attachServiceToken(tokens)] : [])],
  });

  return {
    async unary(method, signal, timeoutMs, header, input, values) {
      try {
        const deadlineMs = effectiveTimeoutMs(timeoutMs, unaryTimeoutMsDefault);
        return await connect.unary(method, signal, deadlineMs, header, input, values);
      } catch (error) {
        throw fromConnectError(error, signal?.aborted === true, url);
      }
    },

    async stream(method, signal, timeoutMs, header, input, values) {
      const call = new AbortController();
      const cancel = () => call.abort(signal?.reason);
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel);
      const ended = () => signal?.removeEventListener('abort', cancel);
      try {
        const deadlineMs = effectiveTimeoutMs(timeoutMs, undefined);
        const response = await connect.stream(method, call.signal, deadlineMs, header, input, values);
        const message = new InterruptibleStream(response.message, (received) => received as never, {
          finished: ended,
          failed(error) {
            ended();
            return fromConnectError(error, call.signal.aborted, url);
          },
          left() {
            ended();
            call.abort();
          },
        });
        return { ...response, message };
      } catch (error) {
        ended();
        throw fromConnectError(error, call.signal.aborted, url);
      }
    },

    close: () => sessionManager.abort(),
  };
}

/**
 * A dying session reports its error only once its socket has closed. Connect stops listening as soon as the next call finds it dead, or the
 * transport is closed, and an unhandled `error` event would end the process: a frozen service could take its callers along.
 *
 * Connect's own pings are off: it forgets an unanswered one as soon as the last call ends or a first one begins, and would then keep a
 * session whose other side is gone, failing each new call, until the system gives the connection up.
 */
class OutlivingSessions extends Http2SessionManager {
  // Node drops the brackets of an IPv6 address (RFC 3986 section 3.2.2).
  readonly #host = new URL(this.authority).host;
  readonly #silenceMs: number;

  constructor(url: string, options: SecureClientSessionOptions, silenceMs: number) {
    super(url, {}, { ...options, createConnection: connectWithin(silenceMs) });
    this.#silenceMs = silenceMs;
  }

  override async request(
    ...[method, path, headers, options]: Parameters<Http2SessionManager['request']>
  ): Promise<ClientHttp2Stream> {
    const stream = await super.request(method, path, { ...headers, ':authority': this.#host }, options);
    resetWithoutEnd(stream);
    const { session } = stream;
    if (session?.listenerCount('error', heard) === 0) {
      session.on('error', heard);
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

/** Its calls have already failed with it. */
const heard = (): void => {};

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

/**
 * Repeats a call that the other side has not begun, which is what REFUSED_STREAM means (RFC 9113 section 8.7); a process that has just
 * begun to stop answers so. A call whose messages were drawn from a stream is not repeated.
 */
const onceMoreIfRefused: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    const { methodKind } = request.method;
    const canBeRepeated = methodKind === 'unary' || methodKind === 'server_streaming';
    if (canBeRepeated && error instanceof ConnectError && error.rawMessage.includes('REFUSED_STREAM')) {
      return next(request);
    }
    throw error;
  }
};

/** Puts the caller of a call into a token for the called service. */
const attachServiceToken =
  (tokens: ServiceTokens): Interceptor =>
  (next) =>
  async (request) => {
    const caller = callerAmong(request.contextValues);
    if (caller !== undefined) {
      request.header.set('authorization', `Bearer ${await tokens.mint(request.service.typeName, caller)}`);
    }
    return next(request);
  };
