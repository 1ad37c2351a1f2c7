import type { FastifyRequest } from 'fastify';
import { Counter, type Registry } from 'prom-client';
import { bound, CellCounter, CellHistogram, latencySeconds } from '#shared/metrics.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's head had arrived, on the monotonic clock. */
    startedMs: number;
  }
}

/** The label under which a request is counted: the path of its route. Unmatched requests and the portal's files have one label each. */
export const routeLabel = ({ is404, routeOptions }: FastifyRequest): string =>
  is404 ? 'unmatched' : routeOptions.config.access === undefined ? 'portal' : routeOptions.url!;

/** The edge's own measures. */
export type EdgeMetrics = {
  /** Counts an answered request. Fastify's answers are counted in one place; code that answers past Fastify counts for itself. */
  request(route: string, status: number, latencyMs: number): void;
  /** Counts a call refused because of overload. */
  shed(cause: string): void;
  /** Time from the request to the first body byte of a stream. */
  firstToken(route: string, ms: number): void;
  /** Counts a request for a model whose retirement is announced: whoever sends it has not moved yet. */
  retiringModel(model: string): void;
};

export function createEdgeMetrics(registry: Registry): EdgeMetrics {
  const requests = new CellCounter({
    name: 'gateway_http_requests_total',
    help: 'HTTP requests answered, by route and status.',
    labelNames: ['route', 'status'],
    registers: [registry],
  });
  const latency = new CellHistogram(registry, {
    name: 'gateway_http_request_duration_seconds',
    help: 'Time from a request until its response was ready; for a model call, until the end of the response.',
    buckets: latencySeconds,
  });
  const firstToken = new CellHistogram(registry, {
    name: 'gateway_time_to_first_token_seconds',
    help: 'Time from a streamed request to the first byte of its response body.',
    buckets: latencySeconds,
  });
  const shed = new Counter({
    name: 'gateway_shed_requests_total',
    help: 'Calls refused with 503 because the process was overloaded, by what was short: time, memory or disk.',
    labelNames: ['cause'],
    registers: [registry],
  });
  // Prometheus sees no increase in a series that begins with it.
  for (const cause of ['time', 'memory', 'disk']) shed.inc({ cause }, 0);
  const retiring = new CellCounter({
    name: 'gateway_retiring_model_requests_total',
    // Private models too: /metrics is for operators, who named them (services/README.md, Metrics).
    help: 'Answered requests that named a model whose retirement is announced, including refused ones.',
    labelNames: ['model'],
    registers: [registry],
  });
  const requestsOfRoute = bound((route: string) => bound((status: number) => requests.cell({ route, status })));
  const latencyOfRoute = bound((route: string) => latency.cell({ route }));
  const retiringOfModel = bound((model: string) => retiring.cell({ model }));
  const firstTokenOfRoute = bound((route: string) => firstToken.cell({ route }));

  return {
    request(route, status, latencyMs) {
      requestsOfRoute(route)(status).inc();
      latencyOfRoute(route).observe(latencyMs / 1000);
    },
    firstToken(route, ms) {
      firstTokenOfRoute(route).observe(ms / 1000);
    },
    shed(cause) {
      shed.inc({ cause });
    },
    retiringModel(model) {
      retiringOfModel(model).inc();
    },
  };
}
