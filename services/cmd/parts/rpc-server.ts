import { X509Certificate } from 'node:crypto';
import { Gauge, type Registry } from 'prom-client';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import type { RpcService } from '#shared/rpc/rpc-service.ts';
import { createRpcServer } from '#shared/rpc/server.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { type Base, drainMs, listening } from '../base.ts';

/**
 * Serves services to other processes, at the returned address; an inference part is healthy once it is prepared. `stopServing` tells those
 * who ask for the health, and goes on serving.
 */
export async function serveServices(
  { env, registry, calls, progress, closers }: Base,
  services: readonly RpcService[],
): Promise<{ url: string; stopServing(): void }> {
  const tokens = createServiceTokens({ issuer: 'gateway', secrets: env.serviceSecrets, clock: systemClock });
  showExpiry(registry, env.rpcTls?.cert);
  const server = createRpcServer({ services, tokens, ...calls, tls: env.rpcTls, drainMs });
  const setHealth = (isServing: boolean): void => {
    for (const name of ['', InferenceService.typeName]) server.health.set(name, isServing);
  };
  if (progress.inference?.isPrepared() === false) {
    setHealth(false);
    void progress.inference.prepared.then(() => setHealth(!progress.closing));
  }
  const url = await listening('RPC_PORT', env.rpcPort, server.listen({ host: env.rpcHost, port: env.rpcPort }));
  closers.push(() => server.close());
  return { url, stopServing: server.health.stopServing };
}

/** Shows until when callers accept the certificate: from then on none of them connects, though everything runs. */
function showExpiry(registry: Registry, certificate: string | undefined): void {
  const expiry = new Gauge({
    name: 'gateway_rpc_certificate_expiry_timestamp_seconds',
    help: 'When the certificate in RPC_TLS_CERT expires, in Unix seconds; absent without one.',
    registers: [registry],
  });
  // Without labels it begins at 0.
  if (certificate === undefined) expiry.remove();
  else expiry.set(Date.parse(new X509Certificate(certificate).validTo) / 1_000);
}
