import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A folder that belongs to this process until it releases the lock or dies. */
export type FolderLock = {
  release(): void;
  /** Deletes the folder with all that is in it, and releases the lock. */
  removeFolder(): void;
};

/** The lock's file. Never open it by node:fs: closing any descriptor of it would drop this process's lock (POSIX fcntl). */
const lockFile = 'lock';

const sqliteBusy = 5;
const sqliteCannotOpen = 14;

/**
 * Takes the folder, or answers null when a living process has it or it is gone.
 *
 * The lock is the kernel's, so that it ends with its process, whatever killed it, and needs no guess from process ids
 * (which containers share and systems reuse). Node has no call for it; SQLite's exclusive lock on an empty file is one.
 */
export function lockFolder(folder: string): FolderLock | null {
  const path = join(folder, lockFile);
  let database: DatabaseSync;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
  } catch (error) {
    if (isSqlite(error, sqliteCannotOpen)) return null;
    throw error;
  }
  const release = () => database.close();
  try {
    database.exec('PRAGMA journal_mode = off; BEGIN EXCLUSIVE');
  } catch (error) {
    release();
    if (isSqlite(error, sqliteBusy) || isSqlite(error, sqliteCannotOpen)) return null;
    throw error;
  }
  // Its last owner may have removed the folder between our open and our lock.
  if (!existsSync(path)) {
    release();
    return null;
  }
  return {
    release,
    removeFolder() {
      // The lock's file goes last, so that nobody takes a folder that still holds records which are stored.
      try {
        for (const name of readdirSync(folder))
          if (name !== lockFile) rmSync(join(folder, name), { recursive: true, force: true });
      } finally {
        release();
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const isSqlite = (error: unknown, code: number): boolean =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' && (error.errcode & 0xff) === code;
