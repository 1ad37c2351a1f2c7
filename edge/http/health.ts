import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';

/** Whether the process takes traffic; the reason is for operators. */
export type Readiness = () => { ready: true } | { ready: false; reason: string };

/** `/healthz` says that the process lives, `/readyz` that it should get traffic, `/metrics` is for Prometheus. */
export function registerHealth(app: FastifyInstance, readiness: Readiness, metricsText: () => Promise<string>): void {
  app.get('/healthz', { config: { access: { surface: 'public' } } }, () => ({ status: 'ok' }));
  app.get('/readyz', { config: { access: { surface: 'public' } } }, (_request, reply) => {
    const state = readiness();
    return reply
      .code(state.ready ? 200 : 503)
      .send(state.ready ? { status: 'ready' } : { status: 'not ready', reason: state.reason });
  });
  app.get('/metrics', { config: { access: { surface: 'public' } } }, async (_request, reply) =>
    reply.header('content-type', Registry.PROMETHEUS_CONTENT_TYPE).send(await metricsText()),
  );
}
