import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { statusOf } from '#shared/error-statuses.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { countedBytesMin, HeldBytes } from '#shared/held-bytes.ts';
import { bodiesMemory, memoryBytes } from '#shared/memory-share.ts';
import { inferenceBytesMax } from '../http/bodies.ts';
import { exposedHeaders, newRequestId } from '../http/headers.ts';
import type { EdgeMetrics } from '../http/metrics.ts';
import { errorBody, retryHeaders } from '../openai/errors.ts';
import { isRealtimeUpgrade } from '../realtime/web-sockets.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the body of this request holds of the memory for bodies; undefined when it is not counted, or no longer needed. */
    bodyBytes: number | undefined;
  }
}

/** What there is too little of for new work. */
type Shortage = 'time' | 'memory';

/** All who come during a turn of the event loop wait until it is over: one that serves requests for longer than this is too long. */
const turnMsMax = 100;
/** For so long the loop must be in such turns, and so many must have come meanwhile: a pause alone is no overload. */
const sustainedMs = 500;
const crowdMin = 100;
/** A loop that waited for so long between two turns had nothing to do. */
const idleMs = 20;
/** While there is too much to do, new work is taken on in the first so many milliseconds of each turn, and of so many of a long one. */
const admittingMs = 25;
const roundMs = 100;
/** There is too much to do until nothing had to be refused for so long. */
const calmMs = 1_000;

/**
 * Below its limit the heap must have so much room, in bytes and as a share of it: a crowd that leaves at once takes two thirds of what its
 * calls took. The limit counts the young generation's 48 MiB as well.
 */
const heapRoomBytesMin = 96 * 1024 ** 2;
const heapRoomShareMin = 0.4;
const heapCheckMs = 100;

export type Memory = {
  /** What the process may have, in bytes. */
  bytes: number;
  /** Whether more objects would soon leave nothing to give. */
  heapIsFull(): boolean;
};

/** The memory of this process, watched until it is closed. */
export function watchMemory(): Memory & { close(): void } {
  /** What the last whole collection left, in bytes: what is used in between is garbage for the most part. */
  let heapLeftBytes = 0;
  const isWhole = (entry: PerformanceEntry & { detail?: unknown }): boolean =>
    (entry.detail as { kind: number }).kind === constants.NODE_PERFORMANCE_GC_MAJOR;
  const collections = new PerformanceObserver((list) => {
    if (list.getEntries().some(isWhole)) heapLeftBytes = getHeapStatistics().used_heap_size;
  });
  collections.observe({ entryTypes: ['gc'] });
  return {
    bytes: memoryBytes(),
    heapIsFull() {
      const { heap_size_limit: limit } = getHeapStatistics();
      return limit - heapLeftBytes < Math.max(heapRoomBytesMin, limit * heapRoomShareMin);
    },
    close: () => collections.disconnect(),
  };
}

/**
 * Refuses new work when there is more than the process can do (reliability.md, Faults: overload), so that what it took on is served in
 * time. How long requests wait to be read is not told by anybody; but while the event loop serves those that came before, they wait.
 */
export class LoadShedder {
  readonly bodiesMax: number;
  readonly #now: () => number;
  readonly #heapIsFull: () => boolean;
  #inTurn = false;
  #turnStartMs = 0;
  #turnEndMs = 0;
  #roundStartMs = 0;
  /** When the first of the turns began that have all been too long since, and how many came in them; undefined: the last one was not. */
  #longSinceMs: number | undefined;
  #cameSince = 0;
  #calmAtMs = 0;
  readonly #bodies = new HeldBytes();
  #heapFull = false;
  #heapCheckedMs = 0;

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number, { bytes, heapIsFull }: Memory) {
    this.#now = now;
    this.#heapIsFull = heapIsFull;
    this.bodiesMax = bodiesMemory(bytes);
  }

  /** What there is too little of for one more request. Asked once for each, when its head is there. */
  shortage(): Shortage | undefined {
    const nowMs = this.#now();
    if (!this.#inTurn) this.#beginTurn(nowMs);
    if (nowMs - this.#heapCheckedMs > heapCheckMs) {
      this.#heapCheckedMs = nowMs;
      this.#heapFull = this.#heapIsFull();
      // One is taken on with each look: without any work there would be no collection to find out by.
    } else if (this.#heapFull) {
      return 'memory';
    }
    this.#cameSince += 1;
    if (nowMs - this.#turnStartMs > turnMsMax) {
      this.#longSinceMs ??= this.#turnStartMs;
      if (nowMs - this.#longSinceMs > sustainedMs && this.#cameSince > crowdMin) this.#calmAtMs = nowMs + calmMs;
    }
    if (nowMs >= this.#calmAtMs) return undefined;
    // libuv reads up to 50,000 ready connections in one turn.
    if (nowMs - this.#roundStartMs > roundMs) this.#roundStartMs = nowMs;
    if (nowMs - this.#roundStartMs <= admittingMs) return undefined;
    this.#calmAtMs = nowMs + calmMs;
    return 'time';
  }

  /** Makes room for somebody's body of so many bytes; false when there is none. `giveBack` follows once the body is no longer needed. */
  take(whose: string, bytes: number): boolean {
    if (!this.#bodies.hasRoom(whose, bytes, this.bodiesMax)) return false;
    this.#bodies.add(whose, bytes);
    return true;
  }

  giveBack(whose: string, bytes: number): void {
    this.#bodies.add(whose, -bytes);
  }

  #beginTurn(nowMs: number): void {
    this.#inTurn = true;
    this.#turnStartMs = nowMs;
    this.#roundStartMs = nowMs;
    if (nowMs - this.#turnEndMs > idleMs) this.#wasShort();
    setImmediate(this.#endTurn);
  }

  #endTurn = (): void => {
    const nowMs = this.#now();
    this.#inTurn = false;
    this.#turnEndMs = nowMs;
    if (nowMs - this.#turnStartMs <= turnMsMax) this.#wasShort();
    else this.#longSinceMs ??= this.#turnStartMs;
  };

  #wasShort(): void {
    this.#longSinceMs = undefined;
    this.#cameSince = 0;
  }
}

const overloaded = gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded. Try again shortly.');
const overloadedHeaders = retryHeaders(overloaded);
const overloadedBody = JSON.stringify(errorBody(overloaded));

/**
 * Refuses new work as soon as its head is there. In front of the app: a refusal that costs what an answer costs leaves nothing for answers.
 * Only requests to `paths` are work; people have to see what happens, and to end it.
 */
export function sheddingLoad(
  handler: RequestListener,
  { shedder, paths, metrics }: { shedder: LoadShedder; paths: ReadonlySet<string>; metrics: EdgeMetrics },
): RequestListener {
  const refuse = (path: string, response: ServerResponse, shortage: Shortage): void => {
    metrics.shed(shortage);
    metrics.request(path, statusOf(overloaded), 0);
    response.writeHead(statusOf(overloaded), {
      'content-type': 'application/json; charset=utf-8',
      'content-length': overloadedBody.length,
      ...overloadedHeaders,
      'x-request-id': newRequestId(),
      'access-control-allow-origin': '*',
      'access-control-expose-headers': exposedHeaders,
    });
    response.end(overloadedBody);
  };
  return (request, response) => {
    const path = request.method === 'POST' ? pathOf(request.url!) : '';
    if (paths.has(path)) {
      const shortage = shedder.shortage();
      if (shortage !== undefined) {
        refuse(path, response, shortage);
        return;
      }
    }
    handler(request, response);
  };
}

/** Refuses requests to upgrade in the same way. They never come to the handler: a WebSocket starts from the server's event. */
export function shedUpgrades(
  app: FastifyInstance,
  { shedder, metrics }: { shedder: LoadShedder; metrics: EdgeMetrics },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const shortage = isRealtimeUpgrade(request.raw) ? shedder.shortage() : undefined;
    if (shortage !== undefined) metrics.shed(shortage);
    done(shortage === undefined ? undefined : overloaded);
  });
}

/** Refuses bodies for which there is no room, before they are read and once it is known whose they are: what is refused earlier takes none. */
export function shedBodies(
  app: FastifyInstance,
  { shedder, metrics }: { shedder: LoadShedder; metrics: EdgeMetrics },
): void {
  app.decorateRequest('bodyBytes', undefined);
  const giveBack = (request: FastifyRequest): void => {
    if (request.bodyBytes === undefined) return;
    shedder.giveBack(request.principal!.userId, request.bodyBytes);
    request.bodyBytes = undefined;
  };
  app.addHook('onRequest', (request, reply, done) => {
    const bytes = request.rule?.startsWork && request.method === 'POST' ? bytesInMemory(request.raw) : 0;
    // Of a client that left while its key was looked up, nobody would tell the end.
    if (bytes === 0 || request.raw.socket.destroyed) {
      done();
    } else if (shedder.take(request.principal!.userId, bytes)) {
      request.bodyBytes = bytes;
      reply.raw.once('close', () => giveBack(request));
      done();
    } else {
      metrics.shed('memory');
      done(overloaded);
    }
  });
  // A refusal may stay open for the rest of its body, which is thrown away.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    giveBack(request);
    done();
  });
}

/** The path as the router reads it: behind an origin, before a query or a fragment, and decoded. */
function pathOf(url: string): string {
  const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '');
  const end = target.search(/[?#]/);
  const path = end === -1 ? target : target.slice(0, end);
  if (!path.includes('%')) return path;
  try {
    return decodeURI(path);
  } catch {
    // The router refuses it.
    return path;
  }
}

/** What the body will take of memory, if that is worth counting: the most there may be when nobody says. Forms go to files. */
function bytesInMemory({ headers }: IncomingMessage): number {
  const length = headers['content-length'];
  if (length === undefined && headers['transfer-encoding'] === undefined) return 0;
  if (headers['content-type']?.startsWith('multipart/')) return 0;
  const bytes = length === undefined ? inferenceBytesMax : Math.min(Number(length), inferenceBytesMax);
  return bytes < countedBytesMin ? 0 : bytes;
}
