import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { FastifyInstance } from 'fastify';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { exposedHeaders, headProblem, newRequestId } from '../http/headers.ts';
import { discardRest } from '../http/lingering.ts';
import type { EdgeMetrics } from '../http/metrics.ts';
import { errorBody, retryHeaders } from '../openai/errors.ts';
import { isRealtimeUpgrade } from '../realtime/web-sockets.ts';

/** What is too scarce for new work. */
type Shortage = 'time' | 'memory';

/**
 * Requests that arrive during a turn of the event loop wait until it is over: a turn that serves requests for longer than this is too long.
 */
const turnMsMax = 100;
/**
 * Overload means that all turns of the last `sustainedMs` were too long, and that more than `crowdMin` requests came in them: a single
 * pause is none.
 */
const sustainedMs = 500;
const crowdMin = 100;
/** An event loop that waited this long between two turns had nothing to do. */
const idleMs = 20;
/** Under overload, new work is admitted during the first `admittingMs` of each turn, and of each `roundMs` of a long one. */
const admittingMs = 25;
const roundMs = 100;
/** The overload is over once nothing had to be refused for this long. */
const calmMs = 1_000;

/**
 * Below its limit the heap must keep this much free, in bytes and as a share: calls that all end at once need two thirds of what they took
 * in order to leave. The limit includes the 48 MiB of the young generation.
 */
const heapRoomBytesMin = 96 * 1024 ** 2;
const heapRoomShareMin = 0.4;
const heapCheckMs = 100;

/** Watches the heap of this process until it is closed. `isFull`: new work could exhaust it. */
export function watchHeap(): { isFull(): boolean; close(): void } {
  /** What the last full collection left, in bytes: what is used between collections is mostly garbage. */
  let heapLeftBytes = 0;
  const isWhole = (entry: PerformanceEntry & { detail?: unknown }): boolean =>
    (entry.detail as { kind: number }).kind === constants.NODE_PERFORMANCE_GC_MAJOR;
  const collections = new PerformanceObserver((list) => {
    if (list.getEntries().some(isWhole)) heapLeftBytes = getHeapStatistics().used_heap_size;
  });
  collections.observe({ entryTypes: ['gc'] });
  return {
    isFull() {
      const { heap_size_limit: limit } = getHeapStatistics();
      return limit - heapLeftBytes < Math.max(heapRoomBytesMin, limit * heapRoomShareMin);
    },
    close: () => collections.disconnect(),
  };
}

/**
 * Refuses new work when there is more than the process can do (reliability.md, Faults: overload), so that admitted work is served in time.
 * How long requests wait to be read cannot be measured; but while the event loop serves earlier ones, they wait.
 */
export class LoadShedder {
  readonly #now: () => number;
  readonly #heapIsFull: () => boolean;
  #inTurn = false;
  #turnStartMs = 0;
  #turnEndMs = 0;
  #roundStartMs = 0;
  /** When the current run of overlong turns began, and how many requests came in it; undefined: the last turn was short enough. */
  #longSinceMs: number | undefined;
  #cameSince = 0;
  #calmAtMs = 0;
  #heapFull = false;
  #heapCheckedMs = 0;

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number, heapIsFull: () => boolean) {
    this.#now = now;
    this.#heapIsFull = heapIsFull;
  }

  /** What is too scarce for one more request; undefined: nothing. Asked once for each, when its head is there. */
  shortage(): Shortage | undefined {
    const nowMs = this.#now();
    if (!this.#inTurn) this.#beginTurn(nowMs);
    if (nowMs - this.#heapCheckedMs > heapCheckMs) {
      this.#heapCheckedMs = nowMs;
      this.#heapFull = this.#heapIsFull();
      // Each look admits one request: without any work there would be no collection to show that the heap has room again.
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

/** What is refused for lack of time or memory. */
export const overloaded = gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded. Try again shortly.');
const overloadedHeaders = retryHeaders(overloaded);
const overloadedBody = JSON.stringify(errorBody(overloaded));

/**
 * Refuses new work as soon as its head is there, in front of the app: a refusal that costs as much as an answer leaves nothing for answers.
 * Only requests to `paths` are work; people must still be able to see what is going on, and end it.
 */
export function sheddingLoad(
  handler: RequestListener,
  { shedder, paths, metrics }: { shedder: LoadShedder; paths: ReadonlySet<string>; metrics: EdgeMetrics },
): RequestListener {
  const refuse = (path: string, request: IncomingMessage, response: ServerResponse, shortage: Shortage): void => {
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
    // Node itself discards what is unread before it serves the next request.
    if (response.shouldKeepAlive) response.end(overloadedBody);
    else {
      response.write(overloadedBody);
      void discardRest(request).then(() => response.end());
    }
  };
  return (request, response) => {
    const path = request.method === 'POST' ? pathOf(request.url!) : '';
    if (paths.has(path)) {
      const shortage = shedder.shortage();
      // A head that is not sound is for the app to refuse, which then closes the connection.
      if (shortage !== undefined && headProblem(request) === null) {
        refuse(path, request, response, shortage);
        return;
      }
    }
    handler(request, response);
  };
}

/** Refuses upgrade requests in the same way. They never reach the handler: a WebSocket starts from the server's event. */
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

/** The path as the router reads it: after an origin, before a query or a fragment, and decoded. */
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
