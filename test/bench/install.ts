import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CannotRun } from './contender.ts';

const run = promisify(execFile);

/** A virtual environment with the given packages, created once. Returns its folder. */
export const installFromPyPI = (downloads: string, name: string, packages: readonly string[]): Promise<string> =>
  installOnce(downloads, name, async (folder) => {
    await run('python3', ['-m', 'venv', folder]);
    await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...packages]);
  });

/** A folder with the given packages in node_modules, created once; `overrides` as in npm. Their install scripts do not run. */
export const installFromNpm = (
  downloads: string,
  name: string,
  packages: readonly string[],
  overrides: Readonly<Record<string, string>> = {},
): Promise<string> =>
  installOnce(downloads, name, async (folder) => {
    mkdirSync(folder);
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, overrides }));
    await run('npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', ...packages], {
      cwd: folder,
    });
  });

/** A virtual environment contains its own path, so it is created where it stays; a mark written at the end says that it is complete. */
async function installOnce(
  downloads: string,
  name: string,
  install: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(downloads, name);
  if (existsSync(`${folder}.complete`)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(downloads, { recursive: true });
  try {
    await install(folder);
  } catch (error) {
    const said = String((error as { stderr?: string }).stderr || (error as Error).message).trim();
    throw new CannotRun(`could not be installed: ${said.split('\n').at(-1)}`);
  }
  mkdirSync(`${folder}.part`, { recursive: true });
  renameSync(`${folder}.part`, `${folder}.complete`);
  return folder;
}
