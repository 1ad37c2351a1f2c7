import { bootstrap } from './bootstrap.ts';
import { startGateway } from './gateway.ts';
import { run } from './run.ts';
import { builtServices } from './services.ts';
import { startSummary } from './start-summary.ts';

// `npm start`: the whole gateway in one process.
await run('gateway', async (env, logger) => {
  const gateway = await startGateway(env, { services: builtServices, edge: true }, logger);
  const first = await bootstrap(env, gateway.switchboard, logger);
  process.stdout.write(
    startSummary({
      url: gateway.url!,
      rpcUrl: gateway.rpcUrl!,
      first,
      dataDir: env.dataDir,
      embedded: env.databaseUrl === undefined,
    }),
  );
  return gateway;
});
