import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { StartError } from '#shared/start-error.ts';
import { findPostgresBinaries } from './embedded/binaries.ts';
import {
  openDataFolder,
  ownerOfData,
  postgresEnvironment,
  prepareDataFolder,
  socketFolder,
  superuser,
} from './embedded/data-folder.ts';
import { claimDataFolder } from './embedded/data-folder-claim.ts';
import { databaseUser, nobody } from './embedded/database-user.ts';
import { endOrphan, endPostmaster, readPostmasterFile } from './embedded/postmaster.ts';
import { postgresSettings } from './embedded/settings.ts';

type EmbeddedPostgresOptions = {
  /** DATA_DIR; Postgres keeps everything in its folder `postgres`. */
  dataDir: string;
  logger: Logger;
  /** For tests: no fsync, so a power cut loses the data, and everything else is faster. */
  fast?: boolean;
};

export type EmbeddedPostgres = {
  /** A connection URL over the Unix socket; only this system user is let in. */
  url: string;
  /** The process id of the server that runs now. */
  pid(): number;
  /** Ends all sessions, writes a checkpoint and stops. */
  stop(): Promise<void>;
};

/** After a killed postmaster its children need a moment to notice. */
const childrenTimeoutMs = 10_000;
/** How long to wait for the last messages of a server that has ended. */
const lastWordsMs = 500;
const restartDelayMsMax = 5_000;

/**
 * Starts the Postgres that came with npm on a Unix socket, without TCP, and keeps it running until `stop`. It ends with this process even
 * when that is killed (on Linux); elsewhere the next start ends it.
 *
 * @throws StartError when the folder cannot be used, or another gateway uses it.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { logger, fast = false } = options;
  const binaries = findPostgresBinaries();
  const folder = openDataFolder(options.dataDir);
  const releaseClaim = claimDataFolder(folder.dataDir);
  try {
    const user = databaseUser(ownerOfData(folder) ?? nobody, [folder.dataDir, binaries.postgres]);
    await endOrphan(folder.pgData, logger);
    await prepareDataFolder(folder, binaries, user, { fast });
    const socket = socketFolder(folder, user);
    const command = [
      ...user.prefix,
      binaries.postgres,
      ...['-D', folder.pgData, '-k', socket],
      ...postgresSettings({ fast }).flatMap((setting) => ['-c', setting]),
    ];
    const launch = (signal: AbortSignal): Promise<ChildProcess> =>
      launchWhenChildrenAreGone(command, { ...user.spawnOptions, pgData: folder.pgData, logger, signal });

    const server = await keepRunning(launch, logger);
    return {
      // Complete: pg takes whatever is missing from PGPORT and the like, which are meant for another Postgres.
      url: `postgresql:///${superuser}?host=${encodeURIComponent(socket)}&port=5432&user=${superuser}&sslmode=disable`,
      pid: server.pid,
      stop: async () => {
        await server.stop();
        if (socket !== folder.home) rmSync(socket, { recursive: true, force: true });
        releaseClaim();
      },
    };
  } catch (error) {
    releaseClaim();
    throw error;
  }
}

/** Starts a server and, until it is stopped, starts it again whenever it ends by itself. */
async function keepRunning(
  launch: (signal: AbortSignal) => Promise<ChildProcess>,
  logger: Logger,
): Promise<{ pid(): number; stop(): Promise<void> }> {
  const stopping = new AbortController();
  let child = await launch(stopping.signal);
  let stopped: Promise<void> | undefined;
  let relaunched = Promise.resolve();

  const relaunch = async (): Promise<void> => {
    const failures = new RepeatedFailures('starting the embedded Postgres again', logger, 0);
    for (let waitMs = 50; !stopping.signal.aborted; waitMs = Math.min(waitMs * 2, restartDelayMsMax)) {
      try {
        child = await launch(stopping.signal);
        watch();
        logger.info('the embedded Postgres runs again');
        return;
      } catch (err) {
        if (stopping.signal.aborted) return;
        failures.failed(err, 'failed; trying again');
        await delay(waitMs, undefined, { signal: stopping.signal }).catch(() => {});
      }
    }
  };
  const watch = (): void => {
    child.once('exit', (code, signal) => {
      if (stopping.signal.aborted) return;
      logger.error({ code, signal }, 'the embedded Postgres ended unexpectedly; starting it again');
      relaunched = relaunch();
    });
  };
  watch();

  const stop = async (): Promise<void> => {
    await relaunched;
    if (!hasEnded(child)) await endPostmaster(child.pid!, () => hasEnded(child));
  };
  return {
    pid: () => child.pid!,
    stop: () => {
      stopping.abort();
      stopped ??= stop();
      return stopped;
    },
  };
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

type LaunchOptions = { uid?: number; gid?: number; pgData: string; logger: Logger; signal: AbortSignal };

async function launchWhenChildrenAreGone(command: readonly string[], options: LaunchOptions): Promise<ChildProcess> {
  const deadline = performance.now() + childrenTimeoutMs;
  for (;;) {
    try {
      return await launchOnce(command, options);
    } catch (error) {
      const childrenRemain = error instanceof StartError && error.message.includes('shared memory block');
      if (!childrenRemain || performance.now() > deadline) throw error;
      await delay(50);
    }
  }
}

/**
 * Starts a server and waits until it takes connections. After a crash it replays up to 1 GB of its log (settings.ts), which takes minutes
 * on a slow disk; ended halfway, it would begin anew at the next start, so only `signal` ends it.
 */
async function launchOnce(command: readonly string[], options: LaunchOptions): Promise<ChildProcess> {
  const { uid, gid, pgData, logger, signal } = options;
  const child = spawn(command[0]!, command.slice(1), {
    uid,
    gid,
    cwd: '/',
    env: postgresEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
    // Its own process group: Ctrl-C in a terminal must reach Postgres through `stop`, after the last request, not at once.
    detached: true,
  });
  // While it recovers, it refuses each of our attempts to connect, dozens in a second.
  const complaints = new RepeatedFailures('the embedded Postgres', logger, 0);
  let failure: unknown;
  let ready = false;
  const none = 'no message';
  let complaint = none;
  child.once('error', (error) => {
    failure = error;
    complaint = error.message;
  });
  // Without a free descriptor there is no pipe to it either.
  const lines = createInterface({ input: child.stderr ?? Readable.from([]) }).on('line', (line) => {
    // The error alone reports what kept it from starting.
    if (!ready && /^(FATAL|PANIC):|^\S*setpriv:/.test(line)) complaint = line;
    else if (!ready && complaint !== none && line.startsWith('DETAIL:')) complaint += ` ${line}`;
    else logLine(line, { logger, complaints, isStopping: signal.aborted });
  });
  const saidAll = once(lines, 'close');

  for (;;) {
    const file = readPostmasterFile(pgData);
    if (file?.ready && file.pid === child.pid && !hasEnded(child)) {
      ready = true;
      return child;
    }
    if (signal.aborted && child.pid !== undefined) await endPostmaster(child.pid, () => hasEnded(child));
    if (failure !== undefined || hasEnded(child)) {
      // Its last output may arrive after its end; children that outlive it would keep the pipes open.
      await Promise.race([saidAll, delay(lastWordsMs)]);
      throw new StartError(`The embedded Postgres in ${pgData} did not start (${complaint}): ${remedy(complaint)}.`, {
        cause: failure,
      });
    }
    await delay(5);
  }
}

/** What to do about a Postgres that did not start. The data is left alone. */
const remedy = (complaint: string): string =>
  complaint.includes('incompatible with server')
    ? 'start the version of the gateway that created it, or set another DATA_DIR, or DATABASE_URL'
    : 'fix the cause, or set another DATA_DIR, or DATABASE_URL';

/**
 * Logs Postgres's own lines at our levels. Its ERROR is a failed statement, which its sender reports; while it is being stopped, or its client
 * has left, FATAL is the end of a connection.
 */
function logLine(
  line: string,
  { logger, complaints, isStopping }: { logger: Logger; complaints: RepeatedFailures; isStopping: boolean },
): void {
  const match = /^(PANIC|FATAL|WARNING|[A-Z]+\d?):\s+(.*)$/.exec(line);
  const text = match?.[2] ?? line;
  if (match?.[1] === 'PANIC') logger.error({ postgres: text }, 'postgres');
  else if (match?.[1] === 'LOG' && text.includes('was terminated by signal'))
    // Nothing else says why all connections are lost.
    logger.error(
      { postgres: text },
      'a process of the embedded Postgres was ended by a signal, by 9 when memory has run out: all connections end while it recovers',
    );
  else if (!isStopping && (match?.[1] === 'FATAL' || match?.[1] === 'WARNING') && text !== 'connection to client lost')
    complaints.failed(text, 'complains');
  // What it does while it recovers from a crash, every ten seconds.
  else if (match?.[1] === 'LOG' && text.includes('elapsed time: ')) logger.info({ postgres: text }, 'postgres');
  else logger.debug({ postgres: text }, 'postgres');
}
