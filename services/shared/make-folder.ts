import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder, with those above it; one that is there already stays as it is. Throws the file system's error.
 * Node's own recursive mkdirSync never returns where a folder that exists takes none, and says ENOENT: below /proc.
 */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
    const parent = dirname(path);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || existsSync(parent)) throw error;
    makeFolder(parent, mode);
    // Another process may have been as quick.
    makeFolder(path, mode);
  }
}
