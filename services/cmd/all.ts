import { run } from './run.ts';

// `npm start`: the whole gateway in one process; with WORKERS=n the services in one and n edges that share the port.
await run('gateway', async (env, logger) => {
  const { openDatabase } = await import('./database.ts');
  const { builtPortal } = await import('../../edge/portal/build.ts');
  // The portal's build and the embedded server run in processes of their own while this one imports the rest.
  const portal = builtPortal();
  const database = openDatabase(env, logger);
  // Imports keep this process from hearing in time that a server elsewhere answers.
  if (env.databaseUrl !== undefined) await database;
  const [{ startWhole }] = await Promise.all([import('./whole.ts'), database]);
  return startWhole(env, { database, portal }, logger);
});
