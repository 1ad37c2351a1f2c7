import { requireUrls } from '#shared/service-names.ts';
import { StartError } from '#shared/start-error.ts';
import { run } from './run.ts';

// `npm run worker`: runs background jobs from the queue in DATABASE_URL, with its own inference part; RPC_URLS says where the services are.
await run('worker', ['SERVICE_SECRET'], async (env, logger) => {
  if (env.databaseUrl === undefined) {
    throw new StartError('DATABASE_URL is missing: set it to the database of the gateway, which has the job queue.');
  }
  requireUrls(env, ['keys', 'auth', 'usage', 'billing', 'models']);
  const { startGateway } = await import('./gateway.ts');
  const gateway = await startGateway(env, { services: [], edge: false, worker: true }, logger);
  process.stdout.write(`The worker takes jobs.${gateway.healthUrl ? ` Metrics: ${gateway.healthUrl}/metrics` : ''}\n`);
  return gateway;
});
