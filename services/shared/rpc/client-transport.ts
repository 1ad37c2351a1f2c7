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
  /** Whom an https url is trusted by. */
  tls?: Pick<SecureContextOptions, 'ca' | 'allowPartialTrustChain'> & Pick<ConnectionOptions, 'checkServerIdentity'>;
  interceptors?: readonly Interceptor[];
  /** How long the other side may say nothing, in milliseconds. */
  silenceMs?: number;
};

export type RpcClientTransport = Transport & {
  /** Closes the connection, and with it every call that is under way. */
  close(): void;
};

/**
 * A connection from which nothing was heard for so long counts as dead, and its calls fail with OVERLOADED; so do those that wait for one to
 * come about. Longer than either process may be kept from its event loop, as by a collection or for want of a core: calls have deadlines of
 * their own, and a connection that is given up takes all of them along.
 */
const silenceMsDefault = 10_000;
/** How often a connection is asked for a sign of life while it may be silent. */
const pingsPerSilence = 2;
/** The largest response message taken, in bytes: a job with images as its result, of which a model call takes 256 MiB. */
const readMaxBytes = 260 * 1024 * 1024;

/**
 * A transport to another process by the Connect protocol over one HTTP/2 connection, which is opened when needed and
 * again after it was lost. Unary calls have a default deadline; failures are GatewayErrors; leaving a stream cancels it.
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
 * A session that dies tells its error only once its socket has closed. Connect stops listening as soon as a next call finds it dead, or
 * the transport is closed, and an `error` event that nobody hears would end the process: a frozen service could take its callers along.
 *
 * Connect's own pings are off: it forgets one that waits for its answer as soon as the last of the calls ends or a first one begins, and then
 * keeps a session whose other side is gone, with each call that comes, until the system gives the connection up.
 */
class OutlivingSessions extends Http2SessionManager {
  // Node leaves out the brackets of an IPv6 address (RFC 3986 section 3.2.2).
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
 * Node ends what a stream sends when it is closed, and resets it behind that: a call that is given up before its message has left would be one
 * with an empty message, which the other side may begin.
 */
function resetWithoutEnd(stream: ClientHttp2Stream): void {
  const close = stream.close.bind(stream);
  stream.close = (code, callback) => {
    if (code !== undefined && code !== constants.NGHTTP2_NO_ERROR) stream.end = () => stream;
    close(code, callback);
  };
}

/** The calls have failed with it. */
const heard = (): void => {};

/** Ends a session whose other side answers no ping. They are counted, so that a process which was itself suspended first reads what waits. */
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

/** Node waits for a connection as long as the system does, which is minutes, and for its TLS handshake for ever. */
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
 * Makes a call anew that the other side has not begun: that is what REFUSED_STREAM says (RFC 9113 section 8.7), as to those that meet a process
 * which has just begun to stop. Whose messages were drawn from a stream is not begun twice.
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

/** Puts the caller of the call into a token for the called service. */
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
