import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** How slow a client may be (security.md, slowloris); times in milliseconds. */
export type ClientTimeouts = {
  /** From the first byte of a request, or from the connection, to the end of its head. */
  headMs: number;
  /** How often connections are checked. */
  checkMs: number;
  /** A body that stays below the minimum pace for this many checks in a row is cut off. */
  slowChecksMax: number;
  /** A client that takes nothing of its answer for this long is cut off, at the latest after twice this time. */
  stalledMs: number;
  /** A client that keeps its side of a connection whose other side has ended is cut off after this long. */
  endedMs: number;
};

/** A request that trickles is closed within 30 s, whichever part of it does; a steady upload may take its time. */
export const clientTimeouts: ClientTimeouts = {
  headMs: 20_000,
  checkMs: 5_000,
  slowChecksMax: 4,
  stalledMs: 60_000,
  endedMs: 5_000,
};

/** Bytes a second; the slowest mobile networks do ten times that. */
const paceMin = 1_024;
/** No request takes longer than this to arrive: 32 MiB at half a megabit a second. */
const requestMsMax = 10 * 60_000;

/** The limits that Node's own server enforces. */
export const headTimeouts = ({ headMs, checkMs }: ClientTimeouts) => ({
  headersTimeout: headMs,
  requestTimeout: requestMsMax,
  connectionsCheckingInterval: checkMs,
});

const receiving = Symbol('the request that a socket carries');
type RequestSocket = Socket & { [receiving]?: IncomingMessage };

/** The last request that a connection brought. */
export const requestOn = (socket: RequestSocket): IncomingMessage | undefined => socket[receiving];

/**
 * Cuts off clients whose bodies trickle or who take nothing of their answer, and, when the server closes, lets slow readers finish. Costs a
 * request one assignment: connections are checked at intervals.
 */
export function cutOffSlowClients(
  app: FastifyInstance,
  { checkMs, slowChecksMax, stalledMs, endedMs }: ClientTimeouts,
): void {
  const seen = new Map<RequestSocket, { bytes: number; slowChecks: number }>();
  app.server.on('connection', (socket: RequestSocket) => {
    seen.set(socket, { bytes: 0, slowChecks: 0 });
    // Node does so itself, except for a connection that has asked for an upgrade: refused, that would be kept for as long as its client likes.
    socket.once('finish', () => {
      cutOff = setTimeout(() => socket.destroy(), endedMs).unref();
    });
    let cutOff: NodeJS.Timeout | undefined;
    socket.once('close', () => {
      clearTimeout(cutOff);
      seen.delete(socket);
    });
  });
  app.server.on('request', (request: IncomingMessage) => {
    (request.socket as RequestSocket)[receiving] = request;
  });
  const timer = setInterval(() => {
    for (const [socket, state] of seen) {
      const isSlow = socket.bytesRead - state.bytes < (paceMin * checkMs) / 1000;
      state.bytes = socket.bytesRead;
      const request = socket[receiving];
      // What has arrived and is not read, as while the disk stalls, is not its client's fault.
      const isAwaited = request?.complete === false && request.readableLength === 0;
      state.slowChecks = isAwaited && isSlow ? state.slowChecks + 1 : 0;
      if (state.slowChecks >= slowChecksMax) socket.destroy();
      cutOffStalled(socket, stalledMs);
    }
  }, checkMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  spareUnread(app.server, () => [...seen.keys()].filter(({ writableLength }) => writableLength > 0));
}

/** Ends a connection that was silent for too long, unless what came while the process stood still has yet to be read. */
export function endUnlessRead(socket: Socket): void {
  const { bytesRead } = socket;
  setImmediate(() => {
    if (socket.bytesRead === bytesRead) socket.destroy();
  });
}

/**
 * Makes Node cut off a connection with bytes to send of which none are taken: otherwise an answer of up to 256 MiB would be held for as
 * long as its client pleases. A connection with nothing to send may be silent, since its next answer may be long in coming.
 */
function cutOffStalled(socket: Socket, stalledMs: number): void {
  // The half tells it from the timeout that Node sets for an idle connection: KEEP_ALIVE_SECONDS may make that as long.
  const timeoutMs = stalledMs + 0.5;
  const isWatched = socket.timeout === timeoutMs;
  if (socket.writableLength > 0) {
    if (!isWatched) socket.setTimeout(timeoutMs);
    // Node lets go of a connection that becomes a WebSocket.
    if (socket.listenerCount('timeout') === 0) socket.on('timeout', () => endUnlessRead(socket));
  } else if (isWatched) socket.setTimeout(0);
}

/** Node regards a connection as idle as soon as its answer was ended, and would destroy it with data the client has yet to read. */
function spareUnread(server: Server, unread: () => Socket[]): void {
  const closeIdleConnections = server.closeIdleConnections.bind(server);
  server.closeIdleConnections = () => {
    const spared = unread().map((socket) => ({ socket, destroy: socket.destroy }));
    // Node's closeIdleConnections takes no exceptions.
    for (const { socket } of spared) socket.destroy = () => socket;
    closeIdleConnections();
    for (const { socket, destroy } of spared) socket.destroy = destroy;
  };
}
