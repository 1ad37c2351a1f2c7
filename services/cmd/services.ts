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

/** Who may call each service over the network, besides the service itself. */
const callers: Record<ServiceName, readonly string[]> = {
  keys: ['edge', 'auth', 'usage', 'models', 'jobs', 'admin'],
  auth: ['edge', 'keys', 'usage', 'billing', 'models', 'jobs', 'admin', 'bootstrap'],
  usage: ['edge', 'inference', 'models'],
  billing: ['edge', 'inference', 'usage', 'jobs', 'admin'],
  models: ['edge', 'inference', 'billing', 'admin', 'bootstrap'],
  jobs: ['edge'],
};

/** Starts services in this process; serveServices lets others call them. */
export async function startServices(
  base: Base,
  names: readonly ServiceName[],
  connection: DatabaseUrl,
): Promise<RpcService[]> {
  const { switchboard, calls, closers } = base;
  const services: RpcService[] = [];
  for (const name of names) {
    const { rpc, close } = await startService(name, base, connection);
    closers.push(close);
    switchboard.add(rpc, calls);
    services.push(rpc);
  }
  return services;
}

async function startService(
  name: ServiceName,
  { env, logger, registry, switchboard, upstreamSecret, connectUpstream }: Base,
  connection: DatabaseUrl,
): Promise<{ rpc: RpcService; close(): Promise<void> }> {
  const common = { connection, clock: env.clock, logger: logger.child({ service: name }), registry };
  const client = <Service extends DescService>(service: Service) => switchboard.client(name, service);
  const options = { callers: callers[name] };
  switch (name) {
    case 'keys': {
      const { implementation, close } = await startKeys({
        ...common,
        peppers: env.keyPeppers,
        auth: client(AuthService),
      });
      return { rpc: rpcService(KeysService, implementation, options), close };
    }
    case 'auth': {
      const { implementation, close } = await startAuth({
        ...common,
        keys: client(KeysService),
        publicUrl: env.publicUrl,
        serviceSecrets: env.serviceSecrets,
        jwtPrivateKey: env.jwtPrivateKey,
        smtpUrl: env.smtpUrl,
      });
      return { rpc: rpcService(AuthService, implementation, options), close };
    }
    case 'models': {
      const { implementation, close } = await startModels({
        ...common,
        keys: client(KeysService),
        usage: client(UsageService),
        auth: client(AuthService),
        publicUrl: env.publicUrl,
        upstreamSecret,
        connectUpstream,
      });
      return { rpc: rpcService(ModelsService, implementation, options), close };
    }
    case 'usage': {
      const { implementation, close } = await startUsage({
        ...common,
        auth: client(AuthService),
        keys: client(KeysService),
        billing: client(BillingService),
      });
      return { rpc: rpcService(UsageService, implementation, options), close };
    }
    case 'billing': {
      const { implementation, close } = await startBilling({
        ...common,
        models: client(ModelsService),
        auth: client(AuthService),
        paymentWebhookSecret: env.paymentWebhookSecret,
      });
      return { rpc: rpcService(BillingService, implementation, options), close };
    }
    case 'jobs': {
      const { implementation, close } = await startJobs({
        ...common,
        billing: client(BillingService),
      });
      return { rpc: rpcService(JobsService, implementation, { ...options, readMaxBytes: bodyReadMaxBytes }), close };
    }
    default:
      return name satisfies never;
  }
}
