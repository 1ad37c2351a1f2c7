import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { systemClock } from '#shared/clock.ts';
import type { EdgeDeps } from '../../edge/deps.ts';
import type { DeclaredRoute } from '../../edge/guards/access.ts';
import { createEdge } from '../../edge/server.ts';
import { testSecrets } from './gateway.ts';
import { silentLogger } from './silent-logger.ts';

/** What can be seen of an edge that takes no requests. */
async function inspectEdge<Seen>(see: (app: FastifyInstance) => Seen): Promise<Seen> {
  // A folder of its own, since the edge removes what earlier processes left in it.
  const uploadsDir = mkdtempSync(join(tmpdir(), 'routes-'));
  const deps: Partial<EdgeDeps> = {
    credentials: { authenticate: neverAsked, onEnded: neverAsked, isFollowed: neverAsked },
    readiness: neverAsked,
    registry: new Registry(),
    clock: systemClock,
    logger: silentLogger,
    bodiesBytesMax: 1024 ** 3,
    publicUrl: 'http://gateway.test',
    serviceSecrets: [testSecrets.SERVICE_SECRET],
    uploadsDir,
    trustedProxies: [],
    keepAliveMs: 75_000,
  };
  const app = await createEdge({ ...clients, ...deps } as EdgeDeps);
  try {
    await app.ready();
    return see(app);
  } finally {
    await app.close();
    rmSync(uploadsDir, { recursive: true, force: true });
  }
}

/** Every route of the edge with what it declares, for tests that are generated from the router. */
export const declaredRoutes = (): Promise<readonly DeclaredRoute[]> =>
  inspectEdge((app) => {
    const seen = new Set<string>();
    return app.declaredRoutes.filter(({ method, url, access }) => {
      // The remaining methods of a known path come last, and are answered with 405.
      const isOtherMethod = access.surface === 'public' && seen.has(url);
      seen.add(url);
      return method !== 'HEAD' && method !== 'OPTIONS' && !isOtherMethod;
    });
  });

/** The edge's HTTP server, for what Node does by its settings alone. */
export const edgeServer = (): Promise<Server> => inspectEdge(({ server }) => server);

const neverAsked = (): never => {
  throw new Error('this edge takes no request');
};

const client = new Proxy({}, { get: () => neverAsked });
const clients = Object.fromEntries(
  ['keys', 'auth', 'usage', 'billing', 'models', 'inference', 'jobs'].map((name) => [name, client]),
);
