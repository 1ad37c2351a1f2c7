import { create } from '@bufbuild/protobuf';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { originAt, readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { serviceNames } from '#shared/service-names.ts';
import { StartError } from '#shared/start-error.ts';
import { commands } from './admin/commands.ts';
import { runCommand } from './admin/run-command.ts';
import { bootstrap } from './bootstrap.ts';
import { Switchboard } from './switchboard.ts';

// `npm run admin -- …`: what operators do in the portal, from the shell of a machine that has SERVICE_SECRET. It calls the running
// services, at RPC_URLS or at RPC_HOST and RPC_PORT.

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader such as `head` has taken what it wanted.
  if (error.code === 'EPIPE') return;
  process.stderr.write(`The output could not be written: ${error.message}\n`);
  process.exitCode = 1;
});
try {
  const env = readEnv(process.env, ['SERVICE_SECRET']);
  const here = originAt(env.rpcHost, env.rpcPort, env.rpcTls ? 'https' : 'http');
  const urls = new Map(serviceNames.map((name) => [name, env.rpcUrls.get(name) ?? here]));
  const switchboard = new Switchboard({
    secrets: env.serviceSecrets,
    urls,
    ownCertificate: env.rpcTls?.cert,
  });
  const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
  const outcome = await runCommand(commands, process.argv.slice(2), {
    auth: switchboard.client('admin', AuthService),
    billing: switchboard.client('admin', BillingService),
    keys: switchboard.client('admin', KeysService),
    models: switchboard.client('admin', ModelsService),
    services: [...new Set(urls.values())],
    asOperator: { contextValues: callerContext(operator) },
    bootstrap: () => bootstrap(env, switchboard, createLogger({ level: 'warn', name: 'admin' })),
  });
  switchboard.close();
  process.stdout.write(outcome.stdout);
  process.stderr.write(outcome.stderr);
  process.exitCode = outcome.exitCode;
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 1;
}
