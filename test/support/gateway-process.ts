import { owner } from './gateway.ts';
import { type StartedProcess, startProcess } from './processes.ts';

/** Starts the whole gateway in a separate process, on free ports; `env` says where its data is, and whatever else matters. */
export async function startGatewayProcess(
  env: Record<string, string | undefined>,
): Promise<{ child: StartedProcess; url: string }> {
  const child = startProcess({
    script: 'services/cmd/all.ts',
    env: {
      PORT: '0',
      RPC_PORT: '0',
      BOOTSTRAP_EMAIL: owner.email,
      BOOTSTRAP_PASSWORD: owner.password,
      LOG_LEVEL: 'error',
      ...env,
    },
  });
  return { child, url: await urlOf(child) };
}

/** The URL of a gateway, once it prints it. */
export const urlOf = async (gateway: StartedProcess): Promise<string> =>
  `http://127.0.0.1:${await gateway.waitForPort(/API and portal\s+http:\/\/[^:]+:(\d+)/)}`;
