import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StartError } from '#shared/start-error.ts';
import { refusedFolder } from './data-folder.ts';
import { findProcess } from './processes.ts';

type Claim = { pid: number; started: string };

/**
 * Marks a data folder as this process's own, so that a second gateway refuses to start instead of ending the first one's Postgres as an
 * orphan. A dead process's claim does not count. Returns a function that releases the claim.
 *
 * If two processes take over a dead claim at the same instant, both can succeed; then Postgres's own lock stops one.
 */
export function claimDataFolder(dataDir: string): () => void {
  const file = join(dataDir, 'postgres.owner');
  const mine: Claim = { pid: process.pid, started: findProcess(process.pid)?.started ?? '' };
  const text = JSON.stringify(mine);
  for (;;) {
    try {
      writeFileSync(file, text, { flag: 'wx' });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refusedFolder(dataDir, error);
    }
    const other = readClaim(file);
    if (other !== undefined && findProcess(other.pid)?.started === other.started) {
      throw new StartError(
        `DATA_DIR ${dataDir} is in use by the gateway with process id ${other.pid}: stop that one, or give this one another DATA_DIR.`,
      );
    }
    rmSync(file, { force: true });
  }
  return () => {
    if (readText(file) === text) rmSync(file, { force: true });
  };
}

function readClaim(file: string): Claim | undefined {
  try {
    return JSON.parse(readText(file) ?? '') as Claim;
  } catch {
    // Torn by a crash: it protects nobody.
    return undefined;
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
