import type { Socket } from 'node:net';
import { messageOf } from '#shared/message-of.ts';
import { bodyLength, bodyStream } from '../request-body.ts';
import type { OnOpen } from '../tls.ts';
import type { BodyPiece, UpstreamExchange, UpstreamFailure, UpstreamHandler } from '../upstream.ts';
import { ProtocolError } from './response-head.ts';
import { ResponseParser } from './response-parser.ts';

/** A request ready to be sent. */
type OutgoingRequest = {
  /** The head up to the value of Content-Length. Latin1. */
  headStart: string;
  /** The rest of it, with the end of that line. Latin1. */
  headEnd: string;
  body: readonly BodyPiece[];
  headTimeoutMs: number;
  idleTimeoutMs: number;
};

/** What a connection tells its pool. */
export type ConnectionOwner = {
  onIdle(connection: Connection): void;
  /** The connection has been given a request; `send` sends it. */
  onReady(connection: Connection): void;
  /** The server closed the connection as idle while the request was on its way. */
  onStale(exchange: Exchange): void;
  onClosed(connection: Connection): void;
};

/** Bodies up to this size are copied into one buffer with their heads, which is cheaper than writing two. */
const copiedBytesMax = 16 * 1024;
/**
 * How long an idle connection is kept if its server does not say, and at most. Uvicorn, which most model servers use, keeps them for 5 s.
 */
export const idleMsDefault = 4_000;
const idleMsMax = 600_000;
/** A connection is given up this much sooner than its server would, lest a request crosses its end. */
const idleMarginMs = 2_000;
/** If a kept connection ends this soon after a request, before any answer to it, its server had closed it as idle; later, something failed. */
const staleMs = 1_000;

/** One exchange. It lets go of its connection when it ends, so that it cannot affect the next one there. */
export class Exchange implements UpstreamExchange {
  readonly request: OutgoingRequest;
  readonly handler: UpstreamHandler;
  connection: Connection | null = null;

  constructor(request: OutgoingRequest, handler: UpstreamHandler) {
    this.request = request;
    this.handler = handler;
  }

  pause(): void {
    this.connection?.pause();
  }

  resume(): void {
    this.connection?.resume();
  }

  abort(): void {
    const { connection } = this;
    this.connection = null;
    connection?.destroy();
  }
}

/** One connection and the exchange that runs on it. It has no timer: its pool checks `deadlineMs` and calls `expire`. */
export class Connection {
  /** When its time is up, on the clock of performance.now(). */
  deadlineMs: number;
  /** After this, on the same clock, it is used for no further request. */
  readonly #retiresMs: number;
  readonly #owner: ConnectionOwner;
  #socket: Socket;
  readonly #parser = new ResponseParser();
  #phase: 'connecting' | 'ready' | 'head' | 'body' | 'idle' | 'closed' = 'connecting';
  #exchange: Exchange;
  /** It was idle before this exchange, and nothing has come since. */
  #mayBeStale = false;
  /** A body is still being read from its files. */
  #sending = false;
  #paused = false;
  #wakeSender: (() => void) | null = null;

  /** `open` starts a socket, and calls back with what it reads, and with the one that can be written to: it, or what it led to. */
  constructor(
    owner: ConnectionOwner,
    exchange: Exchange,
    { connectTimeoutMs, lifetimeMs }: { connectTimeoutMs: number; lifetimeMs: number },
    open: (onRead: (bytes: Buffer) => void, onOpen: OnOpen) => Socket,
  ) {
    this.#owner = owner;
    this.#exchange = exchange;
    exchange.connection = this;
    const nowMs = performance.now();
    this.deadlineMs = nowMs + connectTimeoutMs;
    this.#retiresMs = nowMs + lifetimeMs;
    this.#socket = open(
      (bytes) => this.#read(bytes),
      (error, socket) => {
        if (this.#phase !== 'connecting') return;
        if (error) this.#broken(messageOf(error));
        else this.#opened(socket!);
      },
    );
  }

  #opened(socket: Socket): void {
    this.#socket = socket;
    socket.on('drain', () => this.#wake());
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.#broken(messageOf(error)));
    socket.on('close', () => this.#broken('the upstream closed the connection'));
    this.#phase = 'ready';
    this.send();
  }

  /** Whether another exchange may begin. */
  get usable(): boolean {
    const isOpen = this.#phase === 'idle' && this.#socket.writable && !this.#socket.readableEnded;
    return isOpen && performance.now() < this.#retiresMs;
  }

  /** Begins the next exchange on an idle connection. */
  run(exchange: Exchange): void {
    this.#exchange = exchange;
    exchange.connection = this;
    this.#socket.ref();
    this.#phase = 'ready';
    this.#mayBeStale = true;
    this.#owner.onReady(this);
  }

  pause(): void {
    if (this.#paused || this.#phase === 'connecting') return;
    this.#paused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#deadlineIn(this.#exchange.request.idleTimeoutMs);
    this.#socket.resume();
  }

  /**
   * The deadline has passed. It does not count for a paused reader, nor for a request that is about to leave, which has yet to set its own.
   */
  expire(): void {
    if (this.#paused || this.#phase === 'ready') return;
    const failures = {
      connecting: { kind: 'refused', message: 'no connection in time' },
      head: { kind: 'timeout', message: 'no response head in time' },
      body: { kind: 'timeout', message: 'no more of the body in time' },
    } as const;
    if (this.#phase === 'idle' || this.#phase === 'closed') this.destroy();
    else this.#fail(failures[this.#phase]);
  }

  /** Ends the connection; a running exchange fails. */
  close(): void {
    this.#mayBeStale = false;
    this.#broken('the gateway closes its connections');
  }

  /** Ends the connection without a callback. */
  destroy(): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    this.#exchange.connection = null;
    this.#socket.destroy();
    this.#wake();
    this.#owner.onClosed(this);
  }

  /** Sends its request, unless the exchange has ended in the meantime. */
  send(): void {
    if (this.#phase !== 'ready') return;
    this.#phase = 'head';
    const { headStart, headEnd, body, headTimeoutMs } = this.#exchange.request;
    const length = bodyLength(body);
    const head = headStart + length + headEnd;
    this.#deadlineIn(headTimeoutMs);
    if (!body.every((piece) => piece instanceof Uint8Array)) {
      this.#socket.write(head, 'latin1');
      void this.#sendFiles(this.#exchange, length);
    } else if (length <= copiedBytesMax) {
      const bytes = Buffer.allocUnsafe(head.length + length);
      let at = bytes.write(head, 'latin1');
      for (const piece of body) {
        bytes.set(piece, at);
        at += piece.byteLength;
      }
      this.#socket.write(bytes);
    } else {
      this.#socket.cork();
      this.#socket.write(head, 'latin1');
      for (const piece of body) this.#socket.write(piece);
      this.#socket.uncork();
    }
  }

  /** Never rejects. */
  async #sendFiles(exchange: Exchange, length: number): Promise<void> {
    const { body, headTimeoutMs } = exchange.request;
    this.#sending = true;
    let left = length;
    try {
      for await (const piece of bodyStream(body) as AsyncIterable<Uint8Array>) {
        if (exchange.connection !== this) return;
        left -= piece.byteLength;
        // A file that has grown must not run into the next request.
        if (left < 0) break;
        if (!this.#socket.write(piece)) {
          await new Promise<void>((resolve) => {
            this.#wakeSender = resolve;
          });
        }
        if (this.#phase === 'head') this.#deadlineIn(headTimeoutMs);
      }
      this.#sending = false;
      if (left !== 0) throw new Error('the file of a request body has another length than it had');
    } catch (error) {
      if (exchange.connection === this) this.#fail({ kind: 'reset', message: (error as Error).message });
    }
  }

  #wake(): void {
    const wake = this.#wakeSender;
    this.#wakeSender = null;
    wake?.();
  }

  #read(bytes: Buffer): void {
    if (this.#phase === 'idle' || this.#phase === 'closed') {
      // Nothing was asked for: whatever this is, it must not become the next answer.
      this.destroy();
      return;
    }
    if (this.#phase === 'ready') {
      this.#broken('the upstream answered before it was asked');
      return;
    }
    const parser = this.#parser;
    const exchange = this.#exchange;
    let failure: UpstreamFailure | null = null;
    try {
      parser.push(bytes);
    } catch (error) {
      failure = { kind: error instanceof ProtocolError ? 'protocol' : 'reset', message: (error as Error).message };
    }
    // Some servers say so when they close an idle connection (RFC 9110 section 15.5.9).
    if (parser.head?.status === 408 && !parser.head.keepsAlive && this.#isStale()) {
      this.#handBack();
      return;
    }
    this.#mayBeStale = false;
    // What came before a fault counts, as if it had come in a piece of its own.
    if (this.#phase === 'head' && parser.head !== null) {
      this.#phase = 'body';
      exchange.handler.onHead(parser.head);
    }
    if (parser.data.length > 0 && exchange.connection !== null) exchange.handler.onData(parser.data);
    if (exchange.connection === null) return;
    if (failure !== null) this.#fail(failure);
    else if (parser.done) this.#finish();
    else if (this.#phase === 'body') this.#deadlineIn(exchange.request.idleTimeoutMs);
  }

  /** The answer is whole. */
  #finish(): void {
    const exchange = this.#exchange;
    const { head, surplus } = this.#parser;
    const said = head?.keepAliveSeconds;
    const idleMs = said === undefined ? idleMsDefault : Math.min(said * 1000 - idleMarginMs, idleMsMax);
    // If the answer came before the request was fully sent, the server may or may not want the unsent bytes.
    const unsent = this.#sending || this.#socket.writableLength > 0;
    if (head?.keepsAlive && !surplus && !unsent && idleMs > 0) {
      exchange.connection = null;
      this.#phase = 'idle';
      // Both may have MiB, and it may be idle for minutes.
      exchange.request.body = [];
      this.#parser.reset();
      if (this.#paused) {
        this.#paused = false;
        this.#socket.resume();
      }
      this.#deadlineIn(idleMs);
      this.#socket.unref();
      this.#owner.onIdle(this);
    } else this.destroy();
    exchange.handler.onEnd();
  }

  /** The server will send nothing more. */
  #ended(): void {
    if (this.#phase === 'body' && this.#parser.doneAtClose) this.#finish();
    else this.#broken('the upstream closed the connection');
  }

  #broken(message: string): void {
    const unsent = this.#phase === 'connecting' || this.#phase === 'ready';
    if (this.#phase === 'idle' || this.#phase === 'closed') this.destroy();
    else if (this.#isStale()) this.#handBack();
    else this.#fail({ kind: unsent ? 'refused' : 'reset', message });
  }

  #isStale(): boolean {
    if (!this.#mayBeStale || this.#phase === 'ready') return this.#mayBeStale;
    const sentMs = this.deadlineMs - this.#exchange.request.headTimeoutMs;
    return performance.now() - sentMs < staleMs;
  }

  /** The exchange continues on another connection, as if it had not begun. */
  #handBack(): void {
    const exchange = this.#exchange;
    this.destroy();
    this.#owner.onStale(exchange);
  }

  #fail(failure: UpstreamFailure): void {
    const exchange = this.#exchange;
    const runs = exchange.connection === this;
    this.destroy();
    if (runs) exchange.handler.onError(failure);
  }

  #deadlineIn(ms: number): void {
    this.deadlineMs = performance.now() + ms;
  }
}
