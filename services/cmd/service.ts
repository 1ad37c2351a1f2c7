import type { SecretName } from '#shared/env.ts';
import { inferencePart, isServiceName, requireUrls, rpcNames } from '#shared/service-names.ts';
import { StartError } from '#shared/start-error.ts';
import { run } from './run.ts';

const given = process.argv.slice(2).flatMap((argument) => argument.split(','));
const names = [...new Set(given.map((name) => name.trim()).filter((name) => name !== ''))];
// The key that signs sessions need not be where Auth is not.
const secretsNeeded: SecretName[] = ['SERVICE_SECRET'];
if (names.includes('keys')) secretsNeeded.push('KEY_PEPPER');
if (names.includes('auth')) secretsNeeded.push('JWT_PRIVATE_KEY');

// `npm run service -- keys,auth`: only the named services; RPC_URLS says where the others are.
await run('service', secretsNeeded, async (env, logger) => {
  const services = names.filter(isServiceName);
  const inference = names.includes(inferencePart);
  if (names.length === 0 || names.some((name) => !rpcNames.includes(name))) {
    throw new StartError(
      `Name the services to run, separated by commas, such as npm run service -- keys,auth. There are ${rpcNames.join(', ')}.`,
    );
  }
  const needed = (['usage', 'billing', 'models'] as const).filter((name) => !services.includes(name));
  if (inference) requireUrls(env, needed);
  const { startGateway } = await import('./gateway.ts');
  const gateway = await startGateway(env, { services, inference, edge: false, worker: false }, logger);
  const metrics = gateway.healthUrl ? `, metrics at ${gateway.healthUrl}/metrics` : '';
  // Like an edge, an inference part may wait long for Models.
  void gateway.ready().then((isReady) => {
    if (isReady) process.stdout.write(`${names.join(', ')} at ${gateway.rpcUrl}${metrics}\n`);
  });
  return gateway;
});
