import type { DescService } from '@bufbuild/protobuf';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { type RpcService, rpcService } from '#shared/rpc/rpc-service.ts';
import type { ServiceName } from '#shared/service-names.ts';
import { startAuth } from '../auth/start.ts';
import { startBilling } from '../billing/start.ts';
import { startJobs } from '../jobs/start.ts';
import { startKeys } from '../keys/start.ts';
import { startModels } from '../models/start.ts';
import { startUsage } from '../usage/start.ts';
import { type Base, bodyReadMaxBytes } from './base.ts';
import { type Closer, closeAll } from './close-all.ts';

/** Who may call each service over the network, besides the service itself. */
const callers: Record<ServiceName, readonly string[]> = {
  keys: ['edge', 'auth', 'usage', 'models', 'jobs', 'admin'],
  auth: ['edge', 'keys', 'usage', 'billing', 'models', 'jobs', 'admin', 'bootstrap'],
  usage: ['edge', 'inference', 'models', 'admin'],
  billing: ['edge', 'inference', 'usage', 'jobs', 'admin'],
  models: ['edge', 'inference', 'billing', 'admin', 'bootstrap'],
  jobs: ['edge', 'admin'],
};

/** Starts services in this process; serveServices lets others call them. */
export async function startServices(
  base: Base,
  names: readonly ServiceName[],
  connection: DatabaseUrl,
): Promise<RpcService[]> {
  const { switchboard, calls, closers } = base;
  const services: RpcService[] = [];
  const closes: Closer[] = [];
  const stops: Closer[] = [];
  // Services call each other in circles, so all of them end their own work before any closes what others need to answer.
  closers.push(
    () => closeAll(closes),
    () => closeAll(stops),
  );
  for (const name of names) {
    const { rpc, stop, close } = await startService(name, base, connection);
    closes.push(close);
    stops.push(stop);
    switchboard.add(rpc, calls);
    services.push(rpc);
  }
  return services;
}

async function startService(
  name: ServiceName,
  { env, logger, registry, switchboard, upstreamSecret, connectUpstream }: Base,
  connection: DatabaseUrl,
): Promise<{ rpc: RpcService; stop: Closer; close: Closer }> {
  const common = { connection, clock: env.clock, logger: logger.child({ service: name }), registry };
  const client = <Service extends DescService>(service: Service) => switchboard.client(name, service);
  const options = { callers: callers[name] };
  switch (name) {
    case 'keys': {
      const { implementation, ...ends } = await startKeys({
        ...common,
        peppers: env.keyPeppers,
        auth: client(AuthService),
      });
      return { rpc: rpcService(KeysService, implementation, options), ...ends };
    }
    case 'auth': {
      const { implementation, ...ends } = await startAuth({
        ...common,
        keys: client(KeysService),
        publicUrl: env.publicUrl,
        serviceSecrets: env.serviceSecrets,
        jwtPrivateKey: env.jwtPrivateKey,
        smtpUrl: env.smtpUrl,
      });
      return { rpc: rpcService(AuthService, implementation, options), ...ends };
    }
    case 'models': {
      const { implementation, ...ends } = await startModels({
        ...common,
        keys: client(KeysService),
        usage: client(UsageService),
        auth: client(AuthService),
        publicUrl: env.publicUrl,
        upstreamSecret,
        connectUpstream,
      });
      return { rpc: rpcService(ModelsService, implementation, options), ...ends };
    }
    case 'usage': {
      const { implementation, ...ends } = await startUsage({
        ...common,
        auth: client(AuthService),
        keys: client(KeysService),
        billing: client(BillingService),
      });
      return { rpc: rpcService(UsageService, implementation, options), ...ends };
    }
    case 'billing': {
      const { implementation, ...ends } = await startBilling({
        ...common,
        models: client(ModelsService),
        auth: client(AuthService),
        paymentWebhookSecret: env.paymentWebhookSecret,
      });
      return { rpc: rpcService(BillingService, implementation, options), ...ends };
    }
    case 'jobs': {
      const { implementation, ...ends } = await startJobs({
        ...common,
        billing: client(BillingService),
      });
      return { rpc: rpcService(JobsService, implementation, { ...options, readMaxBytes: bodyReadMaxBytes }), ...ends };
    }
    default:
      return name satisfies never;
  }
}
