import { readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { findProcess, waitUntil } from './processes.ts';

/** What a running Postgres writes into postmaster.pid (Postgres: src/include/utils/pidfile.h). */
type PostmasterFile = { pid: number; socketFolder: string; ready: boolean };

export function readPostmasterFile(pgData: string): PostmasterFile | undefined {
  let lines: string[];
  try {
    lines = readFileSync(join(pgData, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return undefined;
  }
  return { pid: Number(lines[0]), socketFolder: lines[4] ?? '', ready: lines[7]?.trim() === 'ready' };
}

/** How long to wait after each step: fast shutdown (which writes a checkpoint), immediate shutdown, kill. */
const shutdownSteps = [
  { signal: 'SIGINT', graceMs: 10_000 },
  { signal: 'SIGQUIT', graceMs: 5_000 },
  { signal: 'SIGKILL', graceMs: 5_000 },
] as const;

/** Ends a Postgres, gently at first. */
export async function endPostmaster(pid: number, isGone: () => boolean): Promise<void> {
  for (const { signal, graceMs } of shutdownSteps) {
    try {
      process.kill(pid, signal);
    } catch {
      // It ended between the check and the signal.
    }
    if (await waitUntil(isGone, graceMs)) return;
  }
}

/**
 * Frees a data folder for a new Postgres: ends one that outlived its gateway, and removes the pid file of one that is gone. Postgres alone
 * would take a zombie, or another program with the old pid, for a running server.
 */
export async function endOrphan(pgData: string, logger: Logger): Promise<void> {
  const file = readPostmasterFile(pgData);
  if (file === undefined) return;
  const isOurs = (): boolean => isPostmasterOf(file.pid, pgData);
  if (isOurs()) {
    logger.info({ postgresPid: file.pid }, 'stopping a Postgres that outlived its gateway');
    await endPostmaster(file.pid, () => !isOurs());
  } else if (await answers(join(file.socketFolder, '.s.PGSQL.5432'))) {
    throw new StartError(
      `Another Postgres serves ${pgData}, perhaps from another container: stop it, or choose another DATA_DIR.`,
    );
  }
  rmSync(join(pgData, 'postmaster.pid'), { force: true });
}

function isPostmasterOf(pid: number, pgData: string): boolean {
  const command = findProcess(pid)?.command;
  return command !== undefined && `${command} `.includes(`postgres -D ${pgData} `);
}

function answers(socketFile: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketFile);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
