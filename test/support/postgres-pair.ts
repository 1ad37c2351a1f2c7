import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { findPostgresBinaries } from '#shared/db/embedded/binaries.ts';
import { openDataFolder, ownerOfData, postgresEnvironment, superuser } from '#shared/db/embedded/data-folder.ts';
import { databaseUser, nobody } from '#shared/db/embedded/database-user.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { startFaultProxy } from './fault-proxy.ts';
import { rowsOf } from './postgres.ts';
import { silentLogger as logger } from './silent-logger.ts';
import { waitFor } from './wait-for.ts';

const socketName = '.s.PGSQL.5432';

/** A primary and a standby that follows it, behind one address. */
export type PostgresPair = AsyncDisposable & {
  /** Leads to the primary, and after a failover to the former standby. */
  url: DatabaseUrl;
  /** From now on the standby receives nothing, and commits do not wait for it. */
  cutOffStandby(): Promise<void>;
  /**
   * Kills the primary as a power cut would, redirects the address to the standby and makes that the primary: like a name that moves first, so
   * that returning clients find a standby until `hasMetStandby`, by default until one of them is connected.
   */
  failOver(hasMetStandby?: () => boolean): Promise<void>;
};

/** Starts both. A commit is answered only when the standby has it too. */
export async function startPostgresPair(): Promise<PostgresPair> {
  await using starting = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'pg-pair-'));
  starting.defer(() => rmSync(directory, { recursive: true, force: true }));
  const folders = { primary: join(directory, 'primary'), standby: join(directory, 'standby') };
  const empty = await startEmbeddedPostgres({ dataDir: folders.primary, logger });
  await empty.stop();
  const primaryHome = openDataFolder(folders.primary).home;
  appendFileSync(join(primaryHome, 'data', 'pg_hba.conf'), 'local replication all trust\n');
  execFileSync('cp', ['-a', folders.primary, folders.standby]);
  const standbyData = openDataFolder(folders.standby).pgData;
  writeFileSync(join(standbyData, 'standby.signal'), '');
  appendFileSync(
    join(standbyData, 'postgresql.auto.conf'),
    `primary_conninfo = 'host=${primaryHome} user=${superuser}'\n`,
  );

  const primary = starting.use(await startServer(folders.primary));
  await rowsOf(primary.url, `alter system set synchronous_standby_names = '*'`);
  await rowsOf(primary.url, 'select pg_reload_conf()');
  const standby = starting.use(await startServer(folders.standby));
  const follows = async () =>
    (await rowsOf(primary.url, `select from pg_stat_replication where sync_state = 'sync'`)).length === 1;
  await waitFor(follows, { description: 'the standby to follow' });

  const addressFolder = join(directory, 'address');
  mkdirSync(addressFolder);
  const socketOf = (folder: string) => ({ path: join(folder, socketName) });
  const address = starting.use(
    await startFaultProxy({ target: socketOf(primaryHome), listen: socketOf(addressFolder) }),
  );
  const running = starting.move();
  return {
    url: urlOf(addressFolder),
    async cutOffStandby() {
      await rowsOf(standby.url, `alter system set primary_conninfo = ''`);
      await rowsOf(standby.url, 'select pg_reload_conf()');
      const isCutOff = async () => (await rowsOf(standby.url, 'select from pg_stat_wal_receiver')).length === 0;
      await waitFor(isCutOff, { description: 'the standby to be cut off' });
      await rowsOf(primary.url, `alter system set synchronous_standby_names = ''`);
      await rowsOf(primary.url, 'select pg_reload_conf()');
    },
    async failOver(hasMetStandby = () => address.connections > 0) {
      await primary.kill();
      address.moveTo(socketOf(openDataFolder(folders.standby).home));
      address.resetAll();
      await waitFor(hasMetStandby, { description: 'somebody to come back' });
      await rowsOf(standby.url, 'select pg_promote()');
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

const urlOf = (folder: string): DatabaseUrl =>
  `postgresql:///${superuser}?host=${encodeURIComponent(folder)}&user=${superuser}`;

type Server = AsyncDisposable & { url: DatabaseUrl; kill(): Promise<void> };

/** Starts Postgres on a folder that belonged to an embedded one; nothing restarts it when it ends. */
async function startServer(dataDir: string): Promise<Server> {
  const folder = openDataFolder(dataDir);
  const binaries = findPostgresBinaries();
  const user = databaseUser(ownerOfData(folder) ?? nobody, [folder.dataDir, binaries.postgres]);
  const fast = ['-c', 'fsync=off', '-c', 'shared_buffers=64MB', '-c', 'max_connections=200'];
  const [program, ...rest] = [...user.prefix, binaries.postgres, '-D', folder.pgData, '-k', folder.home];
  const child: ChildProcess = spawn(program!, [...rest, '-c', 'listen_addresses=', ...fast], {
    ...user.spawnOptions,
    cwd: '/',
    env: postgresEnvironment(),
    stdio: 'ignore',
    detached: true,
  });
  const exited = once(child, 'exit');
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  const url = urlOf(folder.home);
  await waitFor(async () => (await rowsOf(url, 'select 1')).length === 1, { description: `Postgres in ${dataDir}` });
  return { url, kill, [Symbol.asyncDispose]: kill };
}
