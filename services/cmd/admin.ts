import { create } from '@bufbuild/protobuf';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { readEnv } from '#shared/env.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { StartError } from '#shared/start-error.ts';
import { commands } from './admin/commands.ts';
import { runCommand } from './admin/run-command.ts';

// `npm run admin -- …`: what operators do in the portal, from a shell of a machine that has SERVICE_SECRET. It calls the running
// services, at RPC_URLS or at RPC_HOST and RPC_PORT.
try {
  const env = readEnv(process.env);
  const tokens = createServiceTokens({ issuer: 'admin', secrets: env.serviceSecrets, clock: env.clock });
  const transportTo = (service: string) =>
    createRpcClientTransport({ url: env.rpcUrls.get(service) ?? `http://${env.rpcHost}:${env.rpcPort}`, tokens });
  const transports = {
    auth: transportTo('auth'),
    billing: transportTo('billing'),
    keys: transportTo('keys'),
    models: transportTo('models'),
  };
  const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
  const outcome = await runCommand(commands, process.argv.slice(2), {
    auth: createRpcClient(AuthService, transports.auth),
    billing: createRpcClient(BillingService, transports.billing),
    keys: createRpcClient(KeysService, transports.keys),
    models: createRpcClient(ModelsService, transports.models),
    asOperator: { contextValues: callerContext(operator) },
  });
  for (const transport of Object.values(transports)) transport.close();
  process.stdout.write(outcome.stdout);
  process.stderr.write(outcome.stderr);
  process.exitCode = outcome.exitCode;
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 1;
}
