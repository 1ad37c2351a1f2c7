import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  accessSync,
  chownSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { makeFolder } from '#shared/make-folder.ts';
import { inDataDir, StartError, unwritable } from '#shared/start-error.ts';
import type { PostgresBinaries } from './binaries.ts';
import type { DatabaseUser } from './database-user.ts';

type DataFolder = {
  /** DATA_DIR, absolute and without symbolic links. */
  dataDir: string;
  /** Everything of Postgres; owned by the user it runs as. */
  home: string;
  pgData: string;
};

/** The superuser of the embedded Postgres, and the name of its database. */
export const superuser = 'postgres';

/** Resolves the parts of a data folder, creating it if it is absent. */
export function openDataFolder(path: string): DataFolder {
  try {
    makeFolder(resolve(path));
    const dataDir = realpathSync(path);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    const home = join(dataDir, 'postgres');
    if (existsSync(home)) accessSync(home, constants.W_OK | constants.X_OK);
    return { dataDir, home, pgData: join(home, 'data') };
  } catch (error) {
    throw refusedFolder(resolve(path), error);
  }
}

/** The refusal of a DATA_DIR that cannot be written. */
export const refusedFolder = (path: string, cause: unknown): StartError =>
  unwritable(path, cause, 'choose another DATA_DIR, or set DATABASE_URL');

/** The user who owns existing data; not root, as whom Postgres cannot run. */
export function ownerOfData(folder: DataFolder): { uid: number; gid: number } | undefined {
  const path = existsSync(folder.pgData) ? folder.pgData : folder.dataDir;
  const { uid, gid } = statSync(path);
  return uid === 0 ? undefined : { uid, gid };
}

/**
 * Creates the database cluster at the first start, and gives its files to the user of Postgres.
 *
 * @throws StartError when the cluster is gone that the calls in journals belong to: in a new one nobody could be charged for them.
 */
export async function prepareDataFolder(
  folder: DataFolder,
  binaries: PostgresBinaries,
  user: DatabaseUser,
  options: { fast: boolean },
): Promise<void> {
  if (!existsSync(folder.pgData) && inDataDir(folder.dataDir, () => hasJournals(folder))) {
    throw new StartError(
      `DATA_DIR ${folder.dataDir} holds journals of calls, but not the database that they belong to: set DATABASE_URL if it is on a server, put its folder postgres back or, to begin anew without those calls, move its folder journal away.`,
    );
  }
  try {
    makeFolder(folder.home, 0o700);
    if (user.owner !== undefined) giveTo(user.owner, folder.home);
  } catch (error) {
    throw refusedFolder(folder.dataDir, error);
  }
  removeUnfinished(folder);
  if (!existsSync(folder.pgData)) {
    // Under another name until it is complete, so that a start killed half-way leaves nothing that looks like data. The name is unique:
    // what a killed start ran may still be there, cleaning up its own folder.
    const unfinished = `${folder.pgData}${unfinishedMark}-${randomBytes(4).toString('hex')}`;
    await runInitdb(unfinished, binaries, user, options);
    renameSync(unfinished, folder.pgData);
  }
  // Peer authentication: only this process's own system user gets in, whatever the rights of the socket.
  writeFileSync(join(folder.pgData, 'pg_hba.conf'), 'local all all peer map=gateway\n');
  writeFileSync(join(folder.pgData, 'pg_ident.conf'), `gateway "${userInfo().username}" all\n`);
}

/** Whether a gateway that was killed, or stopped while Usage was away, has left segments of its journal. */
function hasJournals({ dataDir }: DataFolder): boolean {
  const journals = join(dataDir, 'journal');
  return (
    existsSync(journals) && readdirSync(journals, { recursive: true }).some((path) => /segment-\d+$/.test(`${path}`))
  );
}

const unfinishedMark = '.unfinished';

function removeUnfinished({ home, pgData }: DataFolder): void {
  const begin = basename(pgData) + unfinishedMark;
  for (const name of readdirSync(home).filter((each) => each.startsWith(begin))) {
    try {
      rmSync(join(home, name), { recursive: true, force: true });
    } catch {
      // Somebody is still writing there: left to the next start.
    }
  }
}

/** Data that root copied or restored belongs to root: everything is given to the owner. */
function giveTo(owner: { uid: number; gid: number }, path: string): void {
  const status = lstatSync(path);
  if (status.uid === owner.uid && status.gid === owner.gid) return;
  if (status.isDirectory()) for (const name of readdirSync(path)) giveTo(owner, join(path, name));
  if (!status.isSymbolicLink()) chownSync(path, owner.uid, owner.gid);
}

function runInitdb(
  pgData: string,
  binaries: PostgresBinaries,
  user: DatabaseUser,
  { fast }: { fast: boolean },
): Promise<void> {
  const command = [
    ...user.prefix,
    binaries.initdb,
    ...['-D', pgData, '-U', superuser, '--auth', 'peer', '--encoding', 'UTF8', '--locale', 'C'],
    // Sorting and letter case by code point: the same on every machine and after every upgrade.
    ...['--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8', '--no-instructions'],
    ...(fast ? ['--no-sync'] : []),
  ];
  return new Promise((done, fail) => {
    const child = spawn(command[0]!, command.slice(1), {
      ...user.spawnOptions,
      cwd: '/',
      env: postgresEnvironment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    // Without a free descriptor there is no pipe to it either.
    (child.stderr as Readable | null)?.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    const failed = (cause?: Error): void =>
      fail(
        new StartError(
          `The embedded Postgres could not be set up in ${pgData} (${cause?.message ?? complaintIn(errors)}): fix the cause, or set DATABASE_URL.`,
          { cause },
        ),
      );
    child.once('error', failed);
    child.once('close', (code) => (code === 0 ? done() : failed()));
  });
}

/** Nothing from this process's environment: PGDATA, PGPORT or a shell's locale would change what Postgres does. */
export const postgresEnvironment = (): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  LC_ALL: 'C',
  TZ: 'UTC',
});

/** Why initdb failed; its last lines are often about cleaning up afterwards. */
const complaintIn = (text: string): string =>
  /(FATAL|PANIC|error): .*/.exec(text)?.[0] ?? (text.trim().split('\n').at(-1)?.trim() || 'no message');

/** unix(7): sun_path holds 108 bytes on Linux and 104 on macOS, with the closing zero. */
const socketPathBytesMax = 103;
const socketName = '.s.PGSQL.5432';

/** The folder for the socket: beside the data, or below the temporary folder if that path would be too long. */
export function socketFolder(folder: DataFolder, user: DatabaseUser): string {
  if (Buffer.byteLength(join(folder.home, socketName)) <= socketPathBytesMax) return folder.home;
  const name = createHash('sha256').update(folder.home).digest('hex').slice(0, 16);
  const path = join(tmpdir(), `model-gateway-${name}`);
  try {
    mkdirSync(path, { mode: 0o700 });
    if (user.owner !== undefined) chownSync(path, user.owner.uid, user.owner.gid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refusedFolder(tmpdir(), error);
  }
  // The name is predictable: in a folder made by somebody else there could be a false server.
  const status = lstatSync(path);
  if (!status.isDirectory() || status.uid !== (user.owner?.uid ?? process.geteuid?.())) {
    throw new StartError(`${path} belongs to another user: remove it, or choose a DATA_DIR with a shorter path.`);
  }
  return path;
}
