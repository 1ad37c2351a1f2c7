import { requireUrls, serviceNames } from '#shared/service-names.ts';
import { run } from './run.ts';

// `npm run edge`: only the public face, with its inference part; RPC_URLS says where the services are.
await run('edge', ['SERVICE_SECRET', 'KEY_PEPPER'], async (env, logger) => {
  requireUrls(env, serviceNames);
  const { builtPortal } = await import('../../edge/portal/build.ts');
  const portal = builtPortal(logger);
  const { startGateway } = await import('./gateway.ts');
  const gateway = await startGateway(env, { services: [], edge: true, worker: false, portal }, logger);
  // The services may be away for long; until they are there the edge shows its health, and can be stopped.
  void gateway.ready().then((isReady) => {
    if (!isReady) return;
    process.stdout.write(`The edge listens on ${gateway.url}\n`);
    // If this is one of WORKERS, the process that started it waits for this (edge-workers.ts).
    process.send?.('ready');
  });
  return gateway;
});
