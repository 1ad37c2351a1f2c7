import { requireUrls, serviceNames } from '#shared/service-names.ts';
import { run } from './run.ts';

// `npm run edge`: the public face alone, with its inference part; RPC_URLS says where the services are.
await run('edge', async (env, logger) => {
  requireUrls(env, serviceNames);
  const { builtPortal } = await import('../../edge/portal/build.ts');
  const portal = builtPortal();
  const { startGateway } = await import('./gateway.ts');
  const gateway = await startGateway(env, { services: [], edge: true, worker: false, portal }, logger);
  // It may be long until the services are there; meanwhile it shows its health, and is stopped as any other.
  void gateway.ready().then((isReady) => {
    if (!isReady) return;
    process.stdout.write(`The edge listens on ${gateway.url}\n`);
    // One of WORKERS tells the process that started it (edge-workers.ts).
    process.send?.('ready');
  });
  return gateway;
});
