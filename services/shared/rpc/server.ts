import { constants, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { originAt } from '../env.ts';
import { ErrorReason, gatewayError } from '../errors.ts';
import type { CallReport } from './call-report.ts';
import { toConnectError } from './connect-errors.ts';
import { dropDistantDeadline } from './deadline.ts';
import { createHealth, type RpcHealth } from './health.ts';
import type { RpcService } from './rpc-service.ts';
import { endWatchesOn, reportCalls, serviceTokenGate, validateRequests } from './server-interceptors.ts';
import type { ServiceTokens } from './service-token.ts';
import { sessionOptions } from './session-options.ts';
import type { ValidateMessage } from './validation.ts';

type RpcServerDeps = {
  services: readonly RpcService[];
  tokens: ServiceTokens;
  report: CallReport;
  validate: ValidateMessage;
  /** Key and certificate; without them the server speaks HTTP/2 in clear text (h2c). */
  tls?: Pick<SecureContextOptions, 'key' | 'cert'>;
  /** How long calls may go on once the server closes, in milliseconds. */
  drainMs?: number;
};

export type RpcServer = {
  /** Binds, and resolves with the base URL for clients on this machine. */
  listen(address: { host: string; port: number }): Promise<string>;
  health: RpcHealth;
  /** Refuses new calls, ends subscriptions at once and other calls after `drainMs`; resolves when all connections are closed. */
  close(): Promise<void>;
};

const drainMsDefault = 5_000;
/** How long the last bytes of an answer may take before a stream or connection is cut, in milliseconds. */
const lastWordsMs = 500;
/** The most concurrent streams on one connection; Invoke holds one for each running request of an edge. */
const concurrentStreamsMax = 10_000;
/**
 * How many calls may be given up at once, and each second: all there can be. Node's own limits of 1,000 and 33 are meant against strangers:
 * with them, a crowd of leaving clients would break their edge's connection, and everybody else's calls with it.
 */
const streamResets = { streamResetBurst: concurrentStreamsMax, streamResetRate: concurrentStreamsMax };

/**
 * How many calls begin in one turn of the event loop. Each takes some 0.1 ms, and up to `concurrentStreamsMax` may arrive at once: all of
 * them begun, the edge in the same process would answer nobody for seconds.
 */
const begunPerTurnMax = 100;

/** Serves Connect, gRPC and gRPC-web on one HTTP/2 port. Every call but health needs a service token. */
export function createRpcServer(deps: RpcServerDeps): RpcServer {
  const { services, tokens, report, validate, tls, drainMs = drainMsDefault } = deps;
  const health = createHealth(services.map(({ service }) => service.typeName));
  const draining = new AbortController();
  const stopping = new AbortController();
  const interceptors = [endWatchesOn(draining.signal), reportCalls(report), validateRequests(validate)];
  const app = http2Fastify(tls);
  // A destroyed session still waits for its client's end of the connection, and a client that says nothing has no session.
  const connections = new Set<Socket>();
  app.server.on('connection', (connection: Socket) => {
    connections.add(connection);
    connection.once('close', () => connections.delete(connection));
  });

  app.register(fastifyConnectPlugin, {
    // Nothing is compressed between services, so a small message can never expand to a large one.
    acceptCompression: [],
    // Otherwise a cap or an expiry with a misspelt name would silently be missing.
    jsonOptions: { ignoreUnknownFields: false },
    shutdownSignal: stopping.signal,
    interceptors,
    routes(router) {
      for (const rpc of [...services, health.rpc]) {
        router.service(rpc.service, rpc.implementation, {
          readMaxBytes: rpc.readMaxBytes,
          requestGate: serviceTokenGate(rpc, tokens, report),
        });
      }
    },
  });

  return {
    health,
    async listen({ host, port }) {
      await app.listen({ host, port });
      const address = app.server.address();
      const boundPort = typeof address === 'object' && address !== null ? address.port : port;
      return originAt(host, boundPort, tls ? 'https' : 'http');
    },
    async close() {
      health.stopServing();
      draining.abort(shuttingDown());
      const stop = setTimeout(() => stopping.abort(shuttingDown()), drainMs);
      const cut = setTimeout(() => {
        for (const connection of connections) connection.destroy();
      }, drainMs + lastWordsMs);
      try {
        await app.close();
      } finally {
        clearTimeout(stop);
        clearTimeout(cut);
      }
    },
  };
}

const shuttingDown = () =>
  toConnectError(gatewayError(ErrorReason.OVERLOADED, 'A part of the gateway is restarting. Try again shortly.'));

/** A Fastify that speaks HTTP/2 only. Its own logger is off: calls are reported by an interceptor. */
function http2Fastify(tls: RpcServerDeps['tls']): FastifyInstance {
  const http2 = { ...sessionOptions, ...streamResets, settings: { maxConcurrentStreams: concurrentStreamsMax } };
  const transport = tls ? { https: { ...http2, ...tls, allowHTTP1: false } } : { http: http2 };
  const app = fastify({ http2: true, exposeHeadRoutes: false, ...transport } as object) as unknown as FastifyInstance;
  // Those of Connect. Its plugin asks for all eight, each of which has a tree of routes of its own: 90 ms of CPU at a start.
  app.addHook('onRoute', (route) => {
    route.method = ['GET', 'POST'];
  });
  app.addHook('onRequest', beginInTurns());
  app.addHook('onRequest', closeWhenAnswered);
  app.addHook('onRequest', (request, _reply, done) => {
    dropDistantDeadline(request.raw.headers);
    done();
  });
  return app;
}

/** Begins calls a few in each turn of the event loop, in order of arrival, and those never that were given up before. */
function beginInTurns() {
  const waiting: (() => void)[] = [];
  const turn = (): void => {
    for (const begin of waiting.splice(0, begunPerTurnMax)) begin();
    if (waiting.length > 0) setImmediate(turn);
  };
  return (_request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
    const { stream } = reply.raw as unknown as Http2ServerResponse;
    const begin = (): void => {
      if (!stream.closed && !stream.destroyed) done();
    };
    if (waiting.push(begin) === 1) setImmediate(turn);
  };
}

/**
 * Ends a stream whose request was answered before it was read to its end. What still arrives is discarded for a moment, so that the answer
 * and its trailers get through; then the stream is reset (RFC 9113 section 8.1). Otherwise it would stay half open, with a window of
 * buffered bytes, for as long as its client likes.
 */
function closeWhenAnswered(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { stream } = reply.raw as unknown as Http2ServerResponse;
  // The stream's own event: the compatibility response emits `finish` only when both sides have closed.
  stream.once('finish', () => {
    stream.resume();
    const reset = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), lastWordsMs);
    stream.once('close', () => clearTimeout(reset));
  });
  done();
}
