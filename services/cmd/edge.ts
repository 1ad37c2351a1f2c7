import { startGateway } from './gateway.ts';
import { builtPortal } from './portal.ts';
import { run } from './run.ts';

// `npm run edge`: the public face alone, with its inference part; RPC_URLS says where the services are.
await run('edge', async (env, logger) => {
  const gateway = await startGateway(env, { services: [], edge: true, worker: false, portal: builtPortal() }, logger);
  process.stdout.write(`The edge listens on ${gateway.url}\n`);
  return gateway;
});
