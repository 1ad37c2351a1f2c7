import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { hashOfFiles } from '#shared/hash-of-files.ts';
import { isRunning } from '#shared/is-running.ts';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';

const portalDirectory = fileURLToPath(new URL('.', import.meta.url));

/** The folder of the built portal; the edge serves it. */
export const portalDist: string = join(portalDirectory, 'dist');

const lockFile = join(portalDirectory, '.building');
const lockPollMs = 50;

/** Holds the hash of the sources from which `dist` was built. */
const stampFile = join(portalDist, '.sources');

/**
 * Builds the portal if `dist` is missing or was built from other sources; otherwise this costs a few milliseconds. Resolves to the folder.
 * Without Vite (an installation without development packages) a StartError is thrown at once; a start, which gives its logger, keeps an
 * existing build of other sources instead, and warns. A build that fails rejects with a StartError.
 */
export function builtPortal(logger?: Logger): Promise<string> {
  const sources = hashOfSources();
  if (isBuiltFrom(sources)) return Promise.resolve(portalDist);
  const vite = vitePackage();
  if (vite === undefined) {
    if (logger === undefined || !isBuilt()) throw notBuilt(withoutVite);
    logger.warn(`The portal's sources have changed since it was built. ${notBuilt(withoutVite).message}`);
    return Promise.resolve(portalDist);
  }
  const built = buildAlone(vite, sources);
  // Handled here, since a start does other things before it awaits this.
  built.catch(() => {});
  return built;
}

async function buildAlone(vite: string, sources: string): Promise<string> {
  try {
    const release = await lockBuild();
    try {
      // Another process may have built in the meantime.
      if (!isBuiltFrom(sources)) await build(vite, sources);
    } finally {
      release();
    }
    return portalDist;
  } catch (cause) {
    throw notBuilt((cause as Error).message.trim().replaceAll(/\s*\n\s*/g, ' '), cause);
  }
}

const withoutVite = 'Vite is not installed, as npm leaves development packages out in production';

const notBuilt = (why: string, cause?: unknown): StartError =>
  new StartError(
    `The portal could not be built (${why}): run \`npm ci --include=dev && npm run portal\` as a user who may write to ${portalDirectory}.`,
    { cause },
  );

const isBuilt = (): boolean => existsSync(join(portalDist, 'index.html'));
const isBuiltFrom = (sources: string): boolean =>
  isBuilt() && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === sources;

/**
 * Builds in a process of its own: Vite is large, and it sets NODE_ENV, which belongs to this process's configuration. Always a production
 * build, whatever NODE_ENV is here: React's development build is twice as large.
 */
async function build(vite: string, sources: string): Promise<void> {
  await promisify(execFile)(process.execPath, [vite, 'build', portalDirectory, '--logLevel', 'error'], {
    env: { ...process.env, NODE_ENV: 'production' },
  });
  writeFileSync(stampFile, sources);
}

/** Vite's program; undefined where development packages are not installed. */
function vitePackage(): string | undefined {
  try {
    return join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js');
  } catch {
    return undefined;
  }
}

/**
 * Lets only one process build at a time, since each build empties `dist` first. A lock whose owner has died is taken over. Returns the
 * function that releases the lock.
 */
async function lockBuild(): Promise<() => void> {
  for (;;) {
    try {
      writeFileSync(lockFile, String(process.pid), { flag: 'wx' });
      return () => rmSync(lockFile, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (!isRunning(lockOwner())) rmSync(lockFile, { force: true });
    else await setTimeout(lockPollMs);
  }
}

/** The id of the building process; this process's own if the lock was given back or is not written yet, so that the caller tries again. */
function lockOwner(): number {
  const text = existsSync(lockFile) ? readFileSync(lockFile, 'utf8') : '';
  return text === '' ? process.pid : Number(text);
}

/** Everything that goes into the build. */
export const portalSources: readonly string[] = [
  ...['index.html', 'public', 'src', 'vite.config.ts'].map((name) => `edge/portal/${name}`),
  'services/shared/audit-outbox/event-types.ts',
  'services/shared/comparable.ts',
  'services/shared/csv.ts',
  'services/shared/readable-json.ts',
  'services/shared/scopes.ts',
  'services/shared/shell-word.ts',
  'package-lock.json',
];

const hashOfSources = (): string => hashOfFiles(join(portalDirectory, '../..'), portalSources);

// `npm run portal`
if (import.meta.main) await builtPortal();
