import { create } from '@bufbuild/protobuf';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { originAt, readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { serviceNames } from '#shared/service-names.ts';
import { bootstrap } from '../bootstrap.ts';
import { Switchboard } from '../switchboard.ts';
import { commands } from './commands.ts';
import { type Outcome, runCommand } from './run-command.ts';

/** Runs a command against the running services, at RPC_URLS or at RPC_HOST and RPC_PORT. @throws StartError for a bad variable */
export async function runAdmin(argv: readonly string[]): Promise<Outcome> {
  let switchboard: Switchboard | undefined;
  const outcome = await runCommand(commands, argv, () => {
    const env = readEnv(process.env, ['SERVICE_SECRET'], { generates: false });
    const here = originAt(env.rpcHost, env.rpcPort, env.rpcTls ? 'https' : 'http');
    const urls = new Map(serviceNames.map((name) => [name, env.rpcUrls.get(name) ?? here]));
    const opened = new Switchboard({ secrets: env.serviceSecrets, urls, ownCertificate: env.rpcTls?.cert });
    switchboard = opened;
    const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
    return {
      auth: opened.client('admin', AuthService),
      billing: opened.client('admin', BillingService),
      jobs: opened.client('admin', JobsService),
      keys: opened.client('admin', KeysService),
      models: opened.client('admin', ModelsService),
      services: [...new Set(urls.values())],
      asOperator: { contextValues: callerContext(operator) },
      bootstrap: () => bootstrap(env, opened, createLogger({ level: 'warn', name: 'admin' })),
    };
  });
  switchboard?.close();
  return outcome;
}
