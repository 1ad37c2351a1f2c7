import cluster from 'node:cluster';
import { flushCompileCache } from 'node:module';
import { type Env, readEnv } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import './compile-cache.js';

/** `delayMs`: how long it goes on first, as not ready. */
type Running = { close(delayMs: number): Promise<void> };

/** A signal so soon after the first is the same one by another way: npm passes on what the terminal has sent to the whole group. */
const sameSignalMs = 1_000;

/**
 * The life of a process: reads the environment, starts, and closes on SIGTERM or SIGINT; a second signal ends it at once, and so does
 * one before it serves anything. One of WORKERS leaves that to the process that started it, whose end is its own: what is sent to the
 * group it is told twice.
 * What stops a start is told in one line, with exit code 1. `start` imports what it needs by itself, once the environment is known
 * to be good: a bad variable costs no second, and later starts find the compiled modules in the cache.
 */
export async function run(name: string, start: (env: Env, logger: Logger) => Promise<Running>): Promise<void> {
  // A reader that goes away, as `head` does, ends no gateway; pino goes on likewise.
  process.stdout.on('error', () => {});
  try {
    const env = readEnv(process.env);
    let stop = (_signal: 'SIGTERM' | 'SIGINT'): void => {
      // What a start was in the middle of, the next one does anew, as after a crash. A container's first process must say so itself:
      // Linux keeps from it every signal that it has no handler for.
      process.exit(0);
    };
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal));

    const { createLogger } = await import('#shared/logger.ts');
    const logger = createLogger({ level: env.logLevel, name });
    process.on('unhandledRejection', (err) => logger.error({ err }, 'unhandled rejection'));
    const running = await start(env, logger);
    let stoppingSinceMs: number | undefined;
    stop = (signal) => {
      if (stoppingSinceMs !== undefined) {
        if (cluster.isPrimary && performance.now() - stoppingSinceMs > sameSignalMs) process.exit(130);
        return;
      }
      stoppingSinceMs = performance.now();
      logger.info({ signal }, 'stopping');
      // Nobody at a terminal waits for balancers to find out.
      running.close(signal === 'SIGTERM' ? env.shutdownDelayMs : 0).then(
        () => process.exit(0),
        (err) => {
          logger.error({ err }, 'did not stop cleanly');
          process.exit(1);
        },
      );
    };
    // A process that is killed writes nothing at its end.
    flushCompileCache();
  } catch (error) {
    const text = error instanceof StartError ? error.message : `The gateway could not start: ${(error as Error).stack}`;
    process.stderr.write(`${text}\n`);
    process.exit(1);
  }
}
