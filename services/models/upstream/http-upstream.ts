import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, Pool } from 'undici';
import { bodyInMemory, bodyLength, bodyStream } from './request-body.ts';
import type { Upstream, UpstreamExchange, UpstreamFailure, UpstreamHandler, UpstreamHead } from './upstream.ts';
import { openWebSocket, socketUrl } from './web-socket.ts';

export type HttpUpstreamOptions = {
  /** The base of the upstream's OpenAI-compatible API, e.g. `http://127.0.0.1:8000/v1`, without a trailing slash. */
  baseUrl: string;
  /** Sent as a bearer token; undefined: none is sent. */
  apiKey: string | undefined;
  /** Connections at the same time. */
  connectionsMax: number;
  connectTimeoutMs: number;
};

/** The largest response head that is read, in bytes. */
const headBytesMax = 32 * 1024;

/** An OpenAI-compatible server over HTTP. Redirects are not followed: a 3xx is an answer like any other. */
export function createHttpUpstream(options: HttpUpstreamOptions): Upstream {
  const base = new URL(options.baseUrl);
  const basePath = base.pathname === '/' ? '' : base.pathname;
  const pool = new Pool(base.origin, {
    connections: options.connectionsMax,
    connect: { timeout: options.connectTimeoutMs },
    pipelining: 1,
    keepAliveTimeout: 30_000,
    maxHeaderSize: headBytesMax,
  });
  const authorization = options.apiKey === undefined ? [] : ['authorization', `Bearer ${options.apiKey}`];
  // One prebuilt list for each content type that is seen with a fixed text; multipart ones carry a boundary of their own.
  const jsonHeaders = [...authorization, 'content-type', 'application/json', 'accept', '*/*'];

  const getModels = (signal: AbortSignal) =>
    pool.request({
      method: 'GET',
      path: `${basePath}/models`,
      headers: [...authorization, 'accept', 'application/json'],
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
      signal,
    });

  return {
    send(request, handler) {
      const exchange = new PoolExchange(handler);
      const inMemory = bodyInMemory(request.body);
      const headers =
        request.contentType === 'application/json'
          ? jsonHeaders
          : [...authorization, 'content-type', request.contentType, 'accept', '*/*'];
      pool.dispatch(
        {
          method: 'POST',
          path: basePath + request.path,
          // Without its length a stream would go chunked, which some upstreams refuse.
          headers: inMemory === null ? [...headers, 'content-length', String(bodyLength(request.body))] : headers,
          body: inMemory ?? bodyStream(request.body),
          headersTimeout: request.headTimeoutMs,
          bodyTimeout: request.idleTimeoutMs,
        },
        exchange,
      );
      return exchange;
    },

    openSocket: (path, handler) =>
      openWebSocket({ url: socketUrl(base, basePath + path), apiKey: options.apiKey, connect: options }, handler),

    async listModels(signal) {
      const { statusCode, body } = await getModels(signal);
      if (statusCode !== 200) {
        await body.dump();
        throw new Error(`GET ${basePath}/models answered ${statusCode}`);
      }
      return modelIds(await body.json());
    },

    async probe(signal) {
      const { statusCode, body } = await getModels(signal);
      await body.dump();
      // Not every server lists its models; a 404 is a sign of life as well. One that refuses the credential refuses all calls.
      if (statusCode >= 500 || statusCode === 401 || statusCode === 403) {
        throw new Error(`GET ${basePath}/models answered ${statusCode}`);
      }
    },

    close: () => pool.destroy(),
  };
}

/** The ids in a model list; anything that is not an OpenAI model list is an error. */
function modelIds(list: unknown): string[] {
  const data = (list as { data?: unknown })?.data;
  if (!Array.isArray(data)) throw new Error('the model list has no `data` array');
  return data
    .map((item: { id?: unknown }) => item?.id)
    .filter((id): id is string => typeof id === 'string' && id !== '');
}

/** One exchange on a pooled connection: undici's handler on one side, ours on the other. */
class PoolExchange implements Dispatcher.DispatchHandler, UpstreamExchange {
  readonly #handler: UpstreamHandler;
  #controller: Dispatcher.DispatchController | undefined;
  #ended = false;
  #sent = false;

  constructor(handler: UpstreamHandler) {
    this.#handler = handler;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#ended) controller.abort(new Error('aborted by the gateway'));
    else this.#sent = true;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    // 1xx heads precede the real one.
    if (this.#ended || status < 200) return;
    this.#handler.onHead(new Head(status, headers));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#ended) this.#handler.onData(chunk);
  }

  onResponseEnd(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#handler.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#handler.onError({ kind: failureKind(error, this.#sent), message: error.message });
  }

  pause(): void {
    if (!this.#ended) this.#controller?.pause();
  }

  resume(): void {
    if (!this.#ended) this.#controller?.resume();
  }

  abort(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#controller?.abort(new Error('aborted by the gateway'));
  }
}

class Head implements UpstreamHead {
  readonly status: number;
  readonly #headers: IncomingHttpHeaders;

  constructor(status: number, headers: IncomingHttpHeaders) {
    this.status = status;
    this.#headers = headers;
  }

  header(name: string): string | undefined {
    const value = this.#headers[name];
    return Array.isArray(value) ? value[0] : value;
  }
}

const refusedCodes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'EAI_AGAIN',
]);

function failureKind(error: Error, sent: boolean): UpstreamFailure['kind'] {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (refusedCodes.has(code)) return 'refused';
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') return 'timeout';
  if (
    code.startsWith('HPE_') ||
    code === 'UND_ERR_RESPONSE_CONTENT_LENGTH_MISMATCH' ||
    code === 'UND_ERR_HEADERS_OVERFLOW'
  ) {
    return 'protocol';
  }
  return sent ? 'reset' : 'refused';
}
