import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const portalDirectory = fileURLToPath(new URL('.', import.meta.url));

/** Where the built portal stands; the edge serves it. */
export const portalDist: string = join(portalDirectory, 'dist');

/** Holds the hash of the sources which `dist` was built from. */
const stampFile = join(portalDist, '.sources');

/**
 * Builds the portal when `dist` is missing or was built from other sources; otherwise costs a few milliseconds.
 * Returns whether it built. Without Vite (an installation without development packages) an existing build is kept as
 * it is, and a missing one is an error.
 */
export async function buildPortalIfStale(): Promise<boolean> {
  const sources = hashOfSources();
  const built = existsSync(join(portalDist, 'index.html'));
  if (built && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === sources) return false;
  const vite = await import('vite').catch((error: unknown) => {
    if (built) return undefined;
    throw error;
  });
  if (vite === undefined) return false;
  await vite.build({ root: portalDirectory, configFile: join(portalDirectory, 'vite.config.ts'), logLevel: 'error' });
  writeFileSync(stampFile, sources);
  return true;
}

/** A hash over the names and contents of all that goes into the build. */
function hashOfSources(): string {
  const hash = createHash('sha256');
  const lockfile = fileURLToPath(new URL('../../package-lock.json', import.meta.url));
  for (const file of [...filesBelow(portalDirectory), lockfile].sort()) {
    if (!existsSync(file)) continue;
    hash
      .update(`${relative(portalDirectory, file)}\0`)
      .update(readFileSync(file))
      .update('\0');
  }
  return hash.digest('hex');
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'dist' || entry.name.startsWith('.')) return [];
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}
