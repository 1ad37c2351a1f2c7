import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';
import { freePort } from '../support/free-port.ts';
import { withDatabase } from '../support/with-database.ts';
import { answers, CannotRun, type Contender, type Prepared, type Running, start } from './contender.ts';
import type { Load, LoadResult } from './generator.ts';
import { makeRealtime, pin, prioritize, treeOf } from './machine.ts';
import { workloads } from './workloads.ts';

/** A contender that is ready to be started, and its process while it runs. */
export type Entrant = { contender: Contender; prepared: Prepared; port: number; running: Running | undefined };

/** Everything around the contenders: upstream, load generator and Postgres, which share a core separate from theirs. */
export type Stage = {
  upstream: { port: number; pid: number };
  generator: { pid: number; run(load: Load): Promise<LoadResult> };
  postgresPid: number;
  /** Installs and configures a contender. @throws CannotRun */
  enter(contender: Contender): Promise<Entrant>;
  /** Starts an entrant; `running.startMs` is the time until its first right answer. @throws CannotRun */
  launch(entrant: Entrant, more?: { args?: readonly string[] }): Promise<Running>;
  /** Idlers that keep the contenders' core busy, so that these get only a small share of it; disposing ends them. */
  crowd(count: number): AsyncDisposable;
  /**
   * Gives generator and upstream priority over Postgres, with which they share a core, until disposed: Linux lets a running process
   * continue for some milliseconds, which would be measured as latency. Without root, Postgres gets a lower priority instead, and keeps it.
   */
  punctual(): Disposable;
  close(): Promise<void>;
};

/**
 * Without V8's additional threads: as realtime threads on one core they would wait for each other for turns that the scheduler does not
 * give them.
 */
const alone = ['--v8-pool-size=0', '--single-threaded-gc'];

const scriptPath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** `nice` is the priority of everything that is measured; 0 changes nothing. */
export async function openStage(options: { keyCount: number; nice: number }): Promise<Stage> {
  const { keyCount, nice } = options;
  const folder = mkdtempSync(join(tmpdir(), 'gateway-bench-'));
  const children: ChildProcess[] = [];
  const entrants: Entrant[] = [];
  const settle = (child: ChildProcess): void => {
    children.push(child);
    pin(child.pid!, 'rest');
    if (nice !== 0) prioritize(child.pid!, nice);
  };

  process.once('exit', () => {
    for (const child of children) child.kill('SIGKILL');
  });
  // This process does little, but even that not on a contender's core.
  pin(process.pid, 'rest');
  const logger = createLogger({ level: 'error', name: 'bench' });
  const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres'), logger });
  for (const pid of treeOf(postgres.pid())) {
    pin(pid, 'rest');
    if (nice !== 0) prioritize(pid, nice);
  }

  const upstream = spawn(process.execPath, [...alone, scriptPath('upstream.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  settle(upstream);
  const [line] = await once(upstream.stdout, 'data');
  const upstreamPort = Number(/port (\d+)/.exec(String(line))![1]);

  const generator = fork(scriptPath('generator.ts'), { execArgv: alone, detached: true });
  settle(generator);
  const ended = once(generator, 'exit').then(() => [{ error: 'the generator ended' }]);

  const databaseUrl = async (name: string): Promise<string> => {
    const client = new pg.Client(postgres.url);
    await client.connect();
    await client.query(`create database ${name}`);
    await client.end();
    return withDatabase(postgres.url, name);
  };

  return {
    upstream: { port: upstreamPort, pid: upstream.pid! },
    generator: {
      pid: generator.pid!,
      async run(load) {
        generator.send(load);
        const [answer] = (await Promise.race([once(generator, 'message'), ended])) as [
          { result: LoadResult } | { error: string },
        ];
        if ('error' in answer) throw new Error(answer.error);
        return answer.result;
      },
    },
    get postgresPid() {
      return postgres.pid();
    },
    async enter(contender) {
      const own = join(folder, contender.name);
      mkdirSync(own);
      const port = await freePort();
      const prepared = await contender.prepare({
        upstreamUrl: `http://127.0.0.1:${upstreamPort}`,
        port,
        folder: own,
        downloads: join(tmpdir(), 'gateway-bench-downloads'),
        databaseUrl,
        keyCount,
        nice,
      });
      const entrant = { contender, prepared, port, running: undefined };
      entrants.push(entrant);
      return entrant;
    },
    async launch(entrant, { args = [] } = {}) {
      const { contender, prepared, port } = entrant;
      const [program, ...rest] = prepared.command;
      const running = await start(
        { ...prepared, command: [program!, ...args, ...rest] },
        {
          logFile: join(folder, `${contender.name}.log`),
          nice,
          isUp: () => answers(port, prepared, workloads[0]!.requests[0]!),
        },
      );
      entrant.running = running;
      return running;
    },
    crowd(count) {
      const idlers = Array.from({ length: count }, () => {
        const idler = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore', detached: true });
        pin(idler.pid!, 'contender');
        children.push(idler);
        try {
          prioritize(idler.pid!, Math.max(-20, nice - 5));
        } catch {
          // Without root they run as equals, which may leave the contender too fast, and its figure discarded.
        }
        return idler;
      });
      return {
        async [Symbol.asyncDispose]() {
          for (const idler of idlers) {
            idler.kill('SIGKILL');
            await once(idler, 'exit');
          }
        },
      };
    },
    punctual() {
      const instruments = [generator.pid!, upstream.pid!];
      // Postgres's sessions start at the same priority as everything else.
      if (!instruments.every((pid) => makeRealtime(pid, true))) {
        for (const pid of treeOf(postgres.pid())) prioritize(pid, Math.min(19, nice + 15));
      }
      return {
        [Symbol.dispose]() {
          for (const pid of instruments) makeRealtime(pid, false);
        },
      };
    },
    async close() {
      for (const { running } of entrants) await running?.stop();
      for (const child of children) child.kill('SIGKILL');
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Enters what can run; for the rest, the reason. */
export async function enterAll(
  stage: Stage,
  contenders: readonly Contender[],
): Promise<{ entrants: Entrant[]; missing: { contender: Contender; reason: string }[] }> {
  const entrants: Entrant[] = [];
  const missing: { contender: Contender; reason: string }[] = [];
  for (const contender of contenders) {
    try {
      const entrant = await stage.enter(contender);
      await stage.launch(entrant);
      entrants.push(entrant);
    } catch (error) {
      if (!(error instanceof CannotRun)) throw error;
      missing.push({ contender, reason: error.message });
    }
  }
  return { entrants, missing };
}
