import type { AddressInfo } from 'node:net';
import { originAt } from '#shared/env.ts';
import type { Readiness } from '../../../edge/http/health.ts';
import { createHealthServer } from '../../../edge/http/health-server.ts';
import { type Base, listening } from '../base.ts';

/** Serves health and metrics of a process without an edge. Returns the address. */
export async function startHealth(
  { env, logger, metricsText, closers }: Base,
  { port, readiness }: { port: number; readiness: Readiness },
): Promise<string> {
  const { host } = env;
  const health = createHealthServer({ readiness, metricsText, logger });
  await listening('METRICS_PORT', port, health.listen({ host, port }));
  closers.push(() => health.close());
  return originAt(host, (health.server.address() as AddressInfo).port);
}
