import cluster from 'node:cluster';
import { bootstrap } from './bootstrap.ts';
import { startEdgeWorkers } from './edge-workers.ts';
import { startGateway } from './gateway.ts';
import { builtPortal } from './portal.ts';
import { run } from './run.ts';
import { builtServices } from './services.ts';
import { startSummary } from './start-summary.ts';

// `npm start`: the whole gateway in one process; with WORKERS=n the services in one and n edges that share the port.
await run('gateway', async (env, logger) => {
  const single = env.workers === 1;
  const gateway = await startGateway(
    env,
    { services: builtServices, edge: single, worker: true, portal: builtPortal() },
    logger,
  );
  const first = await bootstrap(env, gateway.switchboard, logger);
  const workers = single ? undefined : await startEdgeWorkers({ cluster, env, rpcUrl: gateway.rpcUrl!, logger });
  const url = gateway.url ?? workers!.url;
  process.stdout.write(
    startSummary({
      url,
      rpcUrl: gateway.rpcUrl!,
      first,
      dataDir: env.dataDir,
      embedded: env.databaseUrl === undefined,
    }),
  );
  return {
    close: async () => {
      await workers?.close();
      await gateway.close();
    },
  };
});
