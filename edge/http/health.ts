import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { Type } from 'typebox';

/** Whether the process takes traffic; the reason is for operators. */
export type Readiness = () => { ready: true } | { ready: false; reason: string };

const readySchema = {
  summary: 'Check that the process takes traffic',
  response: {
    200: Type.Object({ status: Type.Literal('ready') }),
    503: Type.Object({ status: Type.Literal('not ready'), reason: Type.String() }),
  },
};

const metricsSchema = {
  summary: 'Get metrics for Prometheus',
  response: { 200: { content: { 'text/plain': { schema: Type.String() } } } },
};

/** `/healthz` says that the process lives, `/readyz` that it should get traffic, `/metrics` is for Prometheus. */
export function registerHealth(app: FastifyInstance, readiness: Readiness, metricsText: () => Promise<string>): void {
  const config = { access: { surface: 'public' } } as const;
  app.get(
    '/healthz',
    {
      config,
      schema: {
        summary: 'Check that the process lives',
        response: { 200: Type.Object({ status: Type.Literal('ok') }) },
      },
    },
    () => ({ status: 'ok' }),
  );
  app.get('/readyz', { config, schema: readySchema }, (_request, reply) => {
    const state = readiness();
    return reply
      .code(state.ready ? 200 : 503)
      .send(state.ready ? { status: 'ready' } : { status: 'not ready', reason: state.reason });
  });
  app.get('/metrics', { config, schema: metricsSchema }, async (_request, reply) =>
    reply.header('content-type', Registry.PROMETHEUS_CONTENT_TYPE).send(await metricsText()),
  );
}
