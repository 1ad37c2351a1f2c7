import { enableCompileCache, flushCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Env, readEnv } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';

type Running = { close(): Promise<void> };

/** Beside the packages, so that a new installation starts with an empty one; where it cannot be written there is none. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/model-gateway', import.meta.url));

/**
 * The life of a process: reads the environment, starts, and closes on SIGTERM or SIGINT; a second signal ends it at once.
 * What stops a start is told in one line, with exit code 1. `start` imports what it needs by itself, once the environment is known
 * to be good: a bad variable costs no second, and later starts find the compiled modules in the cache.
 */
export async function run(name: string, start: (env: Env, logger: Logger) => Promise<Running>): Promise<void> {
  let running: Running;
  try {
    const env = readEnv(process.env);
    enableCompileCache(compileCache);
    const { createLogger } = await import('#shared/logger.ts');
    const logger = createLogger({ level: env.logLevel, name });
    process.on('unhandledRejection', (err) => logger.error({ err }, 'unhandled rejection'));
    running = await start(env, logger);
    let stopping = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (stopping) process.exit(130);
        stopping = true;
        logger.info({ signal }, 'stopping');
        running.close().then(
          () => process.exit(0),
          (err) => {
            logger.error({ err }, 'did not stop cleanly');
            process.exit(1);
          },
        );
      });
    }
    // A process that is killed writes nothing at its end.
    flushCompileCache();
  } catch (error) {
    const text = error instanceof StartError ? error.message : `The gateway could not start: ${(error as Error).stack}`;
    process.stderr.write(`${text}\n`);
    process.exit(1);
  }
}
