import { StartError } from '#shared/start-error.ts';
import { run } from './run.ts';
import { type ServiceName, serviceNames } from './service-names.ts';

// `npm run service -- keys,auth`: the named services alone; RPC_URLS says where the others are.
await run('service', async (env, logger) => {
  const names = (process.argv[2] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const unknown = names.filter((name) => !(serviceNames as readonly string[]).includes(name));
  if (names.length === 0 || unknown.length > 0) {
    throw new StartError(`Name the services to run, of ${serviceNames.join(', ')}: npm run service -- keys,auth`);
  }
  const { startGateway } = await import('./gateway.ts');
  const gateway = await startGateway(env, { services: names as ServiceName[], edge: false, worker: false }, logger);
  process.stdout.write(
    `${names.join(', ')} at ${gateway.rpcUrl}${gateway.healthUrl ? `, metrics at ${gateway.healthUrl}/metrics` : ''}\n`,
  );
  return gateway;
});
