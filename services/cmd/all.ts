import { secretNames } from '#shared/env.ts';
import { run } from './run.ts';

// `npm start`: the whole gateway in one process; with WORKERS=n the services in one process and n edges that share the port.
await run('gateway', secretNames, async (env, logger) => {
  const { openDatabase } = await import('./database.ts');
  const { builtPortal } = await import('../../edge/portal/build.ts');
  // The portal's build and the embedded server run in their own processes while this one imports the rest.
  const portal = builtPortal(logger);
  const database = openDatabase(env, logger);
  // While importing, this process could not hear a remote server's answer in time.
  if (env.databaseUrl !== undefined) await database;
  const [{ startWhole }] = await Promise.all([import('./whole.ts'), database]);
  return startWhole(env, { database, portal }, logger);
});
