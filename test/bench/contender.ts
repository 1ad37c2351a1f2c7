import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { pin, prioritize } from './machine.ts';
import type { BenchRequest } from './workloads.ts';

/** What a contender is given when it is prepared. */
type Surroundings = {
  upstreamUrl: string;
  /** The port on 127.0.0.1 where it must listen. */
  port: number;
  /** Its own folder, empty at first and deleted after the run. */
  folder: string;
  /** A folder kept from run to run, for downloads. */
  downloads: string;
  /** A database of its own in the benchmark's Postgres, over a Unix socket. */
  databaseUrl(name: string): Promise<string>;
  /** How many keys the workload `keys` uses. */
  keyCount: number;
  /** The priority of what is started. */
  nice: number;
};

/** How to start a contender, any number of times. */
export type Prepared = {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd?: string;
  /** Additional header lines for each request. */
  headers: Readonly<Record<string, string>>;
  /** The bearer token of the ordinary workloads. */
  token: string;
  /** The tokens of the workload `keys`; undefined if the contender has no keys. */
  tokens?: readonly string[];
};

export type Contender = {
  name: string;
  /** Its name in tables. */
  title: string;
  /** What it does for a request besides passing it on. */
  duties: string;
  /** Installs and configures it, once per run. Throws a CannotRun if that is impossible. */
  prepare(surroundings: Surroundings): Promise<Prepared>;
};

/** Why a contender is not in the table, in the table's words. */
export class CannotRun extends Error {}

export type Running = { pid: number; startMs: number; stop(): Promise<void>; log(): string };

/** Starts a contender on its core and waits until it is up. */
export async function start(
  prepared: Prepared,
  options: { logFile: string; isUp: () => Promise<boolean>; nice?: number; timeoutMs?: number },
): Promise<Running> {
  const { logFile, isUp, nice = 0, timeoutMs = 120_000 } = options;
  const log = openSync(logFile, 'a');
  const [command, ...args] = prepared.command;
  const startedMs = performance.now();
  const child = spawn(command!, args, {
    cwd: prepared.cwd,
    env: { ...process.env, ...prepared.env },
    stdio: ['ignore', log, log],
    // In a session of its own, which shares a core evenly with other sessions (see `prioritize`).
    detached: true,
  });
  closeSync(log);
  const killAtEnd = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtEnd);
  await once(child, 'spawn');
  pin(child.pid!, 'contender');
  if (nice !== 0) prioritize(child.pid!, nice);
  const running = {
    pid: child.pid!,
    startMs: 0,
    stop: () => stop(child).finally(() => process.off('exit', killAtEnd)),
    log: () => readFileSync(logFile, 'utf8').slice(-2_000),
  };
  while (!(await isUp())) {
    const late = performance.now() - startedMs > timeoutMs;
    if (late || child.exitCode !== null) {
      await running.stop();
      const said = running.log().trim().split('\n');
      throw new CannotRun(`gave no right answer: ${said.findLast((line) => !/^\s+at /.test(line)) ?? ''}`);
    }
    await delay(10);
  }
  running.startMs = performance.now() - startedMs;
  return running;
}

/** Whether a contender gives the right answer to a request. */
export async function answers(
  port: number,
  { headers, token }: Pick<Prepared, 'headers' | 'token'>,
  { path, body, expected }: BenchRequest,
): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, ...headers },
      body,
    });
    return answer.status === expected.status && (await answer.text()).includes(expected.text);
  } catch {
    return false;
  }
}

/** SIGTERM, as from a service manager, and SIGKILL if that takes too long. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
  await exited;
  clearTimeout(timer);
}
