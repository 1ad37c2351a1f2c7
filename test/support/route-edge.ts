import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { EdgeApp, RouteDeps, Routes } from '../../edge/app.ts';
import { installAccess } from '../../edge/guards/access.ts';
import { describeApi } from '../../edge/http/api-description.ts';
import { managementBodies } from '../../edge/http/bodies.ts';
import { installErrors } from '../../edge/http/errors.ts';
import { installValidation } from '../../edge/http/validation.ts';

/** An edge with only some management routes, given no more than they use. */
export async function startRouteEdge(
  routes: readonly Routes[],
  deps: Partial<RouteDeps> & Pick<RouteDeps, 'credentials' | 'clock' | 'logger'>,
): Promise<FastifyInstance> {
  const app: FastifyInstance = fastify({
    loggerInstance: deps.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
  });
  installErrors(app);
  installValidation(app);
  installAccess(app, deps.credentials);
  await describeApi(app, 'http://127.0.0.1');
  await app.register(async (management: EdgeApp) => {
    managementBodies(management);
    for (const register of routes) register(management, deps as RouteDeps);
  });
  await app.ready();
  return app;
}
