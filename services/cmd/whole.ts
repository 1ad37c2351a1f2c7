import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { type Bootstrapped, bootstrap } from './bootstrap.ts';
import { type Gateway, type GatewayParts, startGateway } from './gateway.ts';
import { firstLogin, startSummary } from './start-summary.ts';
// Imported here, while Postgres starts, not by each part when it is started.
import './parts/database.ts';
import './parts/edge.ts';
import './parts/inference.ts';
import './parts/worker.ts';
import './services.ts';

/** Starts all parts, with the edges in this process or in WORKERS, and prints how to use them once they are ready. */
export async function startWhole(
  env: Env,
  begun: Pick<GatewayParts, 'database' | 'portal'>,
  logger: Logger,
): Promise<Pick<Gateway, 'close'>> {
  const single = env.workers === 1;
  let first: Bootstrapped;
  const gateway = await startGateway(
    env,
    {
      ...begun,
      services: serviceNames,
      edge: single,
      edgeWorkers: !single,
      worker: true,
      bootstrap: async (switchboard) => {
        first = await bootstrap(env, switchboard, logger);
        // At once: it is generated only once, and the start may still fail.
        if (first.password !== undefined) process.stdout.write(firstLogin(first.email, first.password));
        return first;
      },
    },
    logger,
  );
  await gateway.ready();
  process.stdout.write(
    startSummary({
      url: gateway.url!,
      rpcUrl: gateway.rpcUrl!,
      first: first!,
      dataDir: env.dataDir,
      embedded: env.databaseUrl === undefined,
    }),
  );
  return gateway;
}
