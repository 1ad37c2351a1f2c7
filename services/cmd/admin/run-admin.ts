import { originAt, readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { bootstrap } from '../bootstrap.ts';
import { Switchboard } from '../switchboard.ts';
import { commands } from './commands.ts';
import { operatorClients } from './operator-clients.ts';
import { type Outcome, runCommand } from './run-command.ts';

/**
 * Runs a command against the running services, at RPC_URLS or at RPC_HOST and RPC_PORT, until it is interrupted.
 *
 * @throws StartError for a bad variable
 */
export async function runAdmin(argv: readonly string[], interrupted: AbortSignal): Promise<Outcome> {
  let switchboard: Switchboard | undefined;
  const open = () => {
    const env = readEnv(process.env, ['SERVICE_SECRET'], { generates: false });
    const here = originAt(env.rpcHost, env.rpcPort, env.rpcTls ? 'https' : 'http');
    const urls = new Map(serviceNames.map((name) => [name, env.rpcUrls.get(name) ?? here]));
    const opened = new Switchboard({ secrets: env.serviceSecrets, urls, ownCertificate: env.rpcTls?.cert });
    switchboard = opened;
    return {
      ...operatorClients(opened),
      services: [...new Set(urls.values())],
      bootstrap: () => bootstrap(env, opened, createLogger({ level: 'warn', name: 'admin' })),
    };
  };
  try {
    return await runCommand(commands, argv, open, { interrupted, env: process.env });
  } finally {
    switchboard?.close();
  }
}
