import fastify, { type FastifyInstance } from 'fastify';
import { statusOf } from '#shared/error-table.ts';
import { clientAddress } from './client-address.ts';
import type { EdgeDeps } from './deps.ts';
import { installAccess } from './guards/access.ts';
import { bodyRooms, shedBodies } from './guards/body-room.ts';
import { compileIpAllowlist } from './guards/ip-allowlist.ts';
import { LoadShedder, sheddingLoad, shedUpgrades, watchHeap } from './guards/load-shedder.ts';
import { ResultRoom, refuseLargeAnswers } from './guards/result-room.ts';
import { takeTurns } from './guards/turns-of-users.ts';
import { describeApi } from './http/api-description.ts';
import { refuseEncodedBodies } from './http/bodies.ts';
import { allowAllOrigins, answerPreflights } from './http/cors.ts';
import { installErrors } from './http/errors.ts';
import { createEdgeMetrics, routeLabel } from './http/metrics.ts';
import { beginAnswer, ownAnswers, serverOfOwnAnswers } from './http/own-answers.ts';
import { clientTimeouts, cutOffSlowClients, headTimeouts } from './http/slow-clients.ts';
import { installValidation } from './http/validation.ts';
import { servePortal } from './portal/serve.ts';
import { mayUpgrade } from './realtime/web-sockets.ts';
import { registerRoutes } from './routes/index.ts';

/** The public face of the gateway: REST, SSE and WebSocket in front of the services. */
export async function createEdge(deps: EdgeDeps): Promise<FastifyInstance> {
  const metrics = createEdgeMetrics(deps.registry);
  const workPaths = new Set<string>();
  const heap = watchHeap();
  const shedder = new LoadShedder(deps.clock.monotonic, heap.isFull);
  const isTrusted = compileIpAllowlist(deps.trustedProxies);
  const app: FastifyInstance = fastify({
    ...ownAnswers(deps, (refusal, request, reply) => {
      allowAllOrigins(request, reply);
      metrics.request('unmatched', statusOf(refusal), 0);
    }),
    // Fastify's own comparison takes a trusted hop with a port for the client.
    trustProxy: isTrusted === null ? false : (hop: string | undefined) => isTrusted(clientAddress({ ip: hop })),
    bodyLimit: 1024 * 1024,
    routerOptions: { maxParamLength: 1024, ignoreTrailingSlash: false },
    serverFactory: (handler) =>
      serverOfOwnAnswers(
        // Any other upgrade, such as the h2c that some clients offer, is ignored: the request is answered as usual.
        { shouldUpgradeCallback: mayUpgrade, keepAliveTimeout: deps.keepAliveMs, ...headTimeouts(clientTimeouts) },
        sheddingLoad(handler, { shedder, paths: workPaths, metrics }),
      ),
    // Requests that arrive while the server closes are served: a 503 would be a request lost.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    // Fastify's time-out would also end the delay of a shutdown, after ten seconds.
    pluginTimeout: 0,
  });

  app.addHook('onClose', async () => heap.close());
  cutOffSlowClients(app, clientTimeouts);
  app.addHook('onRoute', ({ method, url, config }) => {
    if (config?.startsWork && method === 'POST') workPaths.add(url);
  });
  app.decorateRequest('startedMs', 0);
  app.addHook('onRequest', (request, reply, done) => {
    request.startedMs = deps.clock.monotonic();
    allowAllOrigins(request, reply);
    done(beginAnswer(request, reply));
  });
  shedUpgrades(app, { shedder, metrics });
  const resultRoom = new ResultRoom(deps.bodiesBytesMax);
  refuseLargeAnswers(app, { resultRoom, metrics });
  app.addHook('onSend', (request, reply, _payload, done) => {
    metrics.request(routeLabel(request), reply.statusCode, deps.clock.monotonic() - request.startedMs);
    done();
  });
  const sendPage = deps.portalDirectory === undefined ? undefined : servePortal(app, deps.portalDirectory);
  // Each group of routes has parsers of its own. Without one no body is read at an unknown address, whose 404 comes first.
  app.removeAllContentTypeParsers();
  installErrors(app, sendPage);
  installValidation(app);
  await app.register(answerPreflights);
  takeTurns(app);
  installAccess(app, deps.credentials);
  refuseEncodedBodies(app);
  const rooms = bodyRooms(deps.bodiesBytesMax);
  shedBodies(app, { rooms, metrics });
  await describeApi(app, deps.publicUrl);
  await registerRoutes(app, { ...deps, metrics, resultRoom, bodyRoom: rooms.users });
  return app;
}
