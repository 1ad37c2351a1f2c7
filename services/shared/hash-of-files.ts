import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * A hash over the names and contents of the given files of a folder, and of everything in its given folders except tests and built and hidden
 * files.
 */
export function hashOfFiles(folder: string, names: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of names.flatMap((name) => filesAt(join(folder, name))).sort()) {
    hash
      .update(`${relative(folder, file)}\0`)
      .update(readFileSync(file))
      .update('\0');
  }
  return hash.digest('hex');
}

function filesAt(path: string): string[] {
  if (!existsSync(path)) return [];
  return statSync(path).isDirectory() ? filesBelow(path) : [path];
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'dist' || entry.name.startsWith('.') || entry.name.endsWith('.test.ts')) return [];
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}
