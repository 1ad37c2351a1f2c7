import { connect as connectTcp } from 'node:net';
import { EndOfTurn } from '#shared/end-of-turn.ts';
import { type ForwardProxy, type OpenTls, tlsOpener } from '../tls.ts';
import type { UpstreamExchange, UpstreamHandler, UpstreamRequest } from '../upstream.ts';
import { Connection, type ConnectionOwner, Exchange } from './connection.ts';
import { badFieldValue, fieldValue } from './field-value.ts';

type Http1PoolOptions = {
  /** Base URL of the upstream's API; http or https. */
  base: URL;
  /** Sent as a bearer token; undefined: none is sent. */
  apiKey: string | undefined;
  connectTimeoutMs: number;
  /** On the way to a server that speaks TLS. */
  proxy?: ForwardProxy | undefined;
  /** How long a connection is used for further requests at most, in milliseconds. */
  lifetimeMs?: number;
};

/** A name that moves is followed after this time, though its old address goes on answering. */
export const lifetimeMsDefault = 5 * 60_000;

/** How often deadlines are checked: no time-out comes early, and none later than this. */
const sweepMs = 100;
/** How long a request may wait to be sent together with others, when a turn of the event loop is long. */
const waitMsMax = 5;
/**
 * All connections of the process read into it: libuv reads and calls back in one go, and the parser keeps only copies. One for each pool
 * would take 64 KiB for each of thousands of deployments.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Keep-alive connections to one upstream for POST requests over HTTP/1.1 (RFC 9112): one write per request, and neither a stream nor a
 * promise for the pieces of an answer. A request is sent once; a second time only if the connection kept for it turns out to have been
 * closed as idle. The caller decides whether to try elsewhere, and limits concurrency. An answer that is not strict HTTP is a failure, and
 * so is an upgrade.
 */
export class Http1Pool implements ConnectionOwner {
  readonly #options: Http1PoolOptions;
  /** The last used connection is the first to be used again, so that unneeded ones time out. */
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();
  /** Connections whose request has not been sent yet. */
  #ready: Connection[] = [];
  readonly #leaving = new EndOfTurn(waitMsMax, () => {
    const ready = this.#ready;
    this.#ready = [];
    for (const connection of ready) connection.send();
  });
  readonly #headStarts = new Map<string, string>();
  #sweep: NodeJS.Timeout | undefined;
  readonly #openTls: OpenTls;
  #tlsSession: Buffer | undefined;

  constructor(options: Http1PoolOptions) {
    this.#options = options;
    this.#openTls = tlsOpener(options.proxy);
  }

  /** Starts one exchange. Never throws; no callback comes before this has returned. */
  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamExchange {
    const headStart = this.#headStart(request);
    const { requestId, body, headTimeoutMs, idleTimeoutMs } = request;
    // A caller of the RPC may give none, or one that no header can carry.
    const isNamed = requestId !== '' && fieldValue.test(requestId);
    const headEnd = isNamed ? `\r\nx-client-request-id: ${requestId}\r\n\r\n` : '\r\n\r\n';
    const exchange = new Exchange({ headStart, headEnd, body, headTimeoutMs, idleTimeoutMs }, handler);
    if (!fieldValue.test(request.contentType) || !fieldValue.test(this.#options.apiKey ?? '')) {
      process.nextTick(() => handler.onError({ kind: 'refused', message: badFieldValue }));
      return exchange;
    }
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.usable) {
        connection.run(exchange);
        return exchange;
      }
      connection.destroy();
    }
    this.#connect(exchange);
    return exchange;
  }

  onIdle(connection: Connection): void {
    this.#idle.push(connection);
  }

  /**
   * Requests are sent together, after the work of the current turn: sent one by one they would each wake a sleeping upstream, and waking a
   * process on another core costs more CPU time than the rest of a write.
   */
  onReady(connection: Connection): void {
    this.#ready.push(connection);
    this.#leaving.ask();
  }

  /** At most once per exchange: a new connection was never idle. */
  onStale(exchange: Exchange): void {
    this.#connect(exchange);
  }

  onClosed(connection: Connection): void {
    this.#all.delete(connection);
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
    if (this.#all.size === 0) {
      clearInterval(this.#sweep);
      this.#sweep = undefined;
    }
  }

  /** Fails running exchanges and closes all connections. */
  close(): void {
    for (const connection of [...this.#all]) connection.close();
  }

  #connect(exchange: Exchange): void {
    const { base, connectTimeoutMs, lifetimeMs = lifetimeMsDefault } = this.#options;
    const isTls = base.protocol === 'https:';
    const host = base.hostname.replace(/^\[(.*)\]$/, '$1');
    const connection = new Connection(
      this,
      exchange,
      // Up to a fifth less: those made together, as after a start, are not made anew together.
      { connectTimeoutMs, lifetimeMs: lifetimeMs * (1 - Math.random() / 5) },
      (onRead, onOpen) => {
        const options = {
          host,
          port: Number(base.port) || (isTls ? 443 : 80),
          onread: {
            buffer: readBuffer,
            callback: (length: number) => {
              onRead(readBuffer.subarray(0, length));
              return true;
            },
          },
        };
        if (!isTls) {
          const socket = connectTcp({ ...options, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 });
          return socket.once('connect', () => onOpen(null, socket)).on('error', onOpen);
        }
        const keepSession = (session: Buffer) => {
          this.#tlsSession = session;
        };
        const begun = this.#openTls({ ...options, session: this.#tlsSession }, (error, socket) => {
          // What comes through a proxy is not read into the buffer of all.
          if (!error && socket !== begun) socket!.on('session', keepSession).on('data', onRead);
          onOpen(error, socket);
        });
        return begun.on('session', keepSession);
      },
    );
    this.#all.add(connection);
    this.#sweep ??= setInterval(() => this.#expire(), sweepMs).unref();
  }

  #expire(): void {
    const nowMs = performance.now();
    for (const connection of this.#all) if (connection.deadlineMs <= nowMs) connection.expire();
  }

  /**
   * The constant part of a request's head, prepared once per path, for JSON only: multipart has its own boundaries. A request that names no
   * coding accepts any (RFC 9110 section 12.5.3), and the gateway reads none.
   */
  #headStart({ path, contentType }: UpstreamRequest): string {
    const isJson = contentType === 'application/json';
    const known = isJson ? this.#headStarts.get(path) : undefined;
    if (known !== undefined) return known;
    const { base, apiKey } = this.#options;
    const basePath = base.pathname === '/' ? '' : base.pathname;
    const headStart =
      `POST ${basePath}${path} HTTP/1.1\r\nhost: ${base.host}\r\nconnection: keep-alive\r\n` +
      `${apiKey === undefined ? '' : `authorization: Bearer ${apiKey}\r\n`}` +
      `content-type: ${contentType}\r\naccept: */*\r\naccept-encoding: identity\r\ncontent-length: `;
    if (isJson) this.#headStarts.set(path, headStart);
    return headStart;
  }
}
