import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { makeFolder } from './make-folder.ts';

/** A folder that belongs to this process until it releases the lock or dies. */
export type FolderLock = {
  release(): void;
  /** Deletes the folder with its contents, and releases the lock. */
  removeFolder(): void;
};

/** The lock's file. Never open it with node:fs: closing any descriptor of it would drop this process's lock (POSIX fcntl). */
const lockFile = 'lock';

/** Names of folders whose deletion has begun. */
export const removedPrefix = 'removed-';

const sqliteBusy = 5;
const sqliteFull = 13;
const sqliteCannotOpen = 14;

/** A new folder below `directory` that belongs to this process. Throws the file system's error if it cannot be made. */
export function lockNewFolder(directory: string): { name: string; path: string; lock: FolderLock } {
  makeFolder(directory, 0o700);
  for (;;) {
    const name = `${process.pid}-${randomBytes(6).toString('hex')}`;
    const path = join(directory, name);
    mkdirSync(path, { mode: 0o700 });
    // A process that looks for the folders of dead processes may have taken this one while it was empty; then we make another.
    const lock = lockFolder(path);
    if (lock !== null) return { name, path, lock };
  }
}

/**
 * Takes the folder; null when a living process has it or it is gone.
 *
 * The lock is the kernel's, so it ends with its process, whatever killed it, and needs no guess based on process ids (which containers
 * share and systems reuse). Node has no call for it; SQLite's exclusive lock on an empty file is one.
 */
export function lockFolder(folder: string): FolderLock | null {
  const path = join(folder, lockFile);
  let database: DatabaseSync;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
  } catch (error) {
    if (!isSqlite(error, sqliteCannotOpen)) throw error;
    if (!existsSync(folder)) return null;
    // It may be another user's. SQLite names no file.
    throw new Error(`the lock '${path}' cannot be opened`, { cause: error });
  }
  const release = () => database.close();
  try {
    database.exec('PRAGMA journal_mode = off; BEGIN EXCLUSIVE');
  } catch (error) {
    release();
    // If its last owner has removed the folder since we opened the file, SQLite calls that an I/O error.
    if (isSqlite(error, sqliteBusy) || !existsSync(path)) return null;
    throw isSqlite(error, sqliteFull)
      ? Object.assign(new Error(`ENOSPC: no space left on device, '${path}'`), {
          code: 'ENOSPC',
          syscall: 'write',
          path,
        })
      : error;
  }
  // Its last owner may have removed the folder between our open and our lock.
  if (!existsSync(path)) {
    release();
    return null;
  }
  return {
    release,
    removeFolder() {
      // Windows cannot rename a folder with an open file in it.
      if (process.platform === 'win32') release();
      // Renamed in one step while the lock holds, so that nobody can take a half-deleted folder.
      const renamed = join(dirname(folder), `${removedPrefix}${basename(folder)}`);
      // Somebody else may have deleted it.
      if (existsSync(folder)) renameSync(folder, renamed);
      rmSync(renamed, { recursive: true, force: true });
      if (process.platform !== 'win32') release();
    },
  };
}

const isSqlite = (error: unknown, code: number): boolean =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' && (error.errcode & 0xff) === code;
