import { create, type DescService } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport, type RpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { StartError } from '#shared/start-error.ts';
import { commands } from './admin/commands.ts';
import { runCommand } from './admin/run-command.ts';
import { bootstrap } from './bootstrap.ts';

// `npm run admin -- …`: what operators do in the portal, from a shell of a machine that has SERVICE_SECRET. It calls the running
// services, at RPC_URLS or at RPC_HOST and RPC_PORT.
try {
  const env = readEnv(process.env);
  const transports: RpcClientTransport[] = [];
  const client = <Service extends DescService>(issuer: string, service: Service): Client<Service> => {
    // modelgateway.keys.v1.KeysService is `keys`.
    const url = env.rpcUrls.get(service.typeName.split('.')[1]!) ?? `http://${env.rpcHost}:${env.rpcPort}`;
    const tokens = createServiceTokens({ issuer, secrets: env.serviceSecrets, clock: env.clock });
    const transport = createRpcClientTransport({ url, tokens });
    transports.push(transport);
    return createRpcClient(service, transport);
  };
  const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
  const outcome = await runCommand(commands, process.argv.slice(2), {
    auth: client('admin', AuthService),
    billing: client('admin', BillingService),
    keys: client('admin', KeysService),
    models: client('admin', ModelsService),
    asOperator: { contextValues: callerContext(operator) },
    bootstrap: () => bootstrap(env, { client }, createLogger({ level: 'warn', name: 'admin' })),
  });
  for (const transport of transports) transport.close();
  process.stdout.write(outcome.stdout);
  process.stderr.write(outcome.stderr);
  process.exitCode = outcome.exitCode;
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 1;
}
