import type { ConnectionOptions, SecureContextOptions } from 'node:tls';
import { ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { callerAmong } from './caller.ts';
import { ClientSessions } from './client-sessions.ts';
import { fromConnectError } from './connect-errors.ts';
import { effectiveTimeoutMs, unaryTimeoutMsDefault } from './deadline.ts';
import { InterruptibleStream } from './interruptible-stream.ts';
import type { ServiceTokens } from './service-token.ts';

export type RpcClientTransportOptions = {
  /** Where the services listen, e.g. `http://keys:7001` (h2c) or `https://keys:7001`. */
  url: string;
  /** Signs each call that has a caller; without it only health can be called. */
  tokens?: ServiceTokens;
  /** The authorities that an https URL is trusted by. */
  tls?: Pick<SecureContextOptions, 'ca' | 'allowPartialTrustChain'> & Pick<ConnectionOptions, 'checkServerIdentity'>;
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
/** The largest response message accepted, in bytes: a job whose result is images, which may have 256 MiB. */
const readMaxBytes = 260 * 1024 * 1024;

/**
 * A transport to another process by the Connect protocol over one HTTP/2 connection, opened when needed and reopened after a loss. Unary
 * calls have a default deadline; failures are GatewayErrors; leaving a stream cancels it.
 */
export function createRpcClientTransport(options: RpcClientTransportOptions): RpcClientTransport {
  const { url, tokens, tls, silenceMs = silenceMsDefault } = options;
  const sessionManager = new ClientSessions(url, { tls, silenceMs });
  const connect = createConnectTransport({
    baseUrl: url,
    httpVersion: '2',
    sessionManager,
    acceptCompression: [],
    readMaxBytes,
    interceptors: [onceMoreIfRefused, ...(tokens ? [attachServiceToken(tokens)] : [])],
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
