import type { Registry } from 'prom-client';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { type RpcService, rpcService } from '#shared/rpc/rpc-service.ts';
import { startAuth } from '../auth/start.ts';
import { startBilling } from '../billing/start.ts';
import { startJobs } from '../jobs/start.ts';
import { startKeys } from '../keys/start.ts';
import { startModels } from '../models/start.ts';
import { connectUpstream, environmentSecrets } from '../models/upstream/connect.ts';
import { startUsage } from '../usage/start.ts';
import type { ServiceName } from './service-names.ts';
import type { Switchboard } from './switchboard.ts';

export { builtServices, type ServiceName, serviceNames } from './service-names.ts';

export type ServiceContext = {
  env: Env;
  connection: DatabaseUrl;
  clock: Clock;
  logger: Logger;
  switchboard: Switchboard;
  registry: Registry;
};

export type StartedService = { rpc: RpcService; close(): Promise<void> };

/** The largest message that carries a request body, in bytes: an audio upload and its form. */
export const bodyReadMaxBytes = 36 * 1024 * 1024;

/** Who may call each service over the network, besides itself. */
const callers: Record<ServiceName, readonly string[]> = {
  keys: ['edge', 'auth', 'models', 'jobs', 'admin'],
  auth: ['edge', 'keys', 'usage', 'billing', 'models', 'jobs', 'admin', 'bootstrap'],
  usage: ['edge', 'inference', 'models'],
  billing: ['edge', 'inference', 'usage', 'jobs', 'admin'],
  models: ['edge', 'inference', 'billing', 'admin', 'bootstrap'],
  jobs: ['edge'],
};

/** Starts one service in this process. */
export async function startService(name: ServiceName, context: ServiceContext): Promise<StartedService> {
  const { env, connection, clock, switchboard } = context;
  const logger = context.logger.child({ service: name });
  const options = { callers: callers[name] };
  switch (name) {
    case 'keys': {
      const { implementation, close } = await startKeys({
        connection,
        clock,
        logger,
        peppers: env.keyPeppers,
        auth: switchboard.client('keys', AuthService),
      });
      return { rpc: rpcService(KeysService, implementation, options), close };
    }
    case 'auth': {
      const { implementation, close } = await startAuth({
        connection,
        clock,
        logger,
        keys: switchboard.client('auth', KeysService),
        publicUrl: env.publicUrl,
        serviceSecrets: env.serviceSecrets,
        jwtPrivateKey: env.jwtPrivateKey,
        smtpUrl: env.smtpUrl,
      });
      return { rpc: rpcService(AuthService, implementation, options), close };
    }
    case 'models': {
      const { implementation, close } = await startModels({
        connection,
        clock,
        logger,
        keys: switchboard.client('models', KeysService),
        usage: switchboard.client('models', UsageService),
        auth: switchboard.client('models', AuthService),
        registry: context.registry,
        publicUrl: env.publicUrl,
        connectUpstream: connectUpstream({
          clock,
          secret: environmentSecrets({ ...process.env, UPSTREAM_API_KEY: env.upstreamApiKey }),
        }),
      });
      return { rpc: rpcService(ModelsService, implementation, options), close };
    }
    case 'usage': {
      const { implementation, close } = await startUsage({
        connection,
        clock,
        logger,
        registry: context.registry,
        auth: switchboard.client('usage', AuthService),
        billing: switchboard.client('usage', BillingService),
      });
      return { rpc: rpcService(UsageService, implementation, options), close };
    }
    case 'billing': {
      const { implementation, close } = await startBilling({
        connection,
        clock,
        logger,
        models: switchboard.client('billing', ModelsService),
        auth: switchboard.client('billing', AuthService),
        paymentWebhookSecret: env.paymentWebhookSecret,
      });
      return { rpc: rpcService(BillingService, implementation, options), close };
    }
    case 'jobs': {
      const { implementation, close } = await startJobs({
        connection,
        clock,
        logger,
        registry: context.registry,
        billing: switchboard.client('jobs', BillingService),
      });
      return { rpc: rpcService(JobsService, implementation, { ...options, readMaxBytes: bodyReadMaxBytes }), close };
    }
    default:
      return name satisfies never;
  }
}
