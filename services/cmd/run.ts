import cluster from 'node:cluster';
import { type Env, readEnv, type SecretName } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { keepModules } from './module-cache.js';
import { startFailure } from './start-failure.ts';

/** `delayMs`: how long it first goes on, as not ready. */
type Running = { close(delayMs: number): Promise<void> };

/** A signal this soon after the first is the same one on another path: npm passes on what the terminal has sent to the whole group. */
const sameSignalMs = 1_000;

/**
 * The life of a process: reads the environment, starts, and closes on SIGTERM or SIGINT. A second signal ends it at once, and so does one
 * before it serves anything. A process of WORKERS ignores signals: the process that started it ends it, and a signal to the group would
 * reach it twice. A failed start prints one line and exits with code 1. `start` does its imports itself, once the environment is known to
 * be valid: a bad variable is reported at once, and later starts find the compiled modules in the cache. `secretsNeeded` is for readEnv.
 */
export async function run(
  name: string,
  secretsNeeded: readonly SecretName[],
  start: (env: Env, logger: Logger) => Promise<Running>,
): Promise<void> {
  // A reader of the output that goes away, as `head` does, must not end the gateway; pino behaves alike.
  process.stdout.on('error', () => {});
  try {
    // `service` reads its arguments itself.
    if (name !== 'service' && process.argv.length > 2) {
      const command = name === 'gateway' ? 'start' : `run ${name}`;
      throw new StartError(`npm ${command} takes no arguments: set variables such as PORT, which README.md lists.`);
    }
    const env = readEnv(process.env, secretsNeeded);
    let stop = (_signal: 'SIGTERM' | 'SIGINT'): void => {
      // An interrupted start is repeated by the next one, as after a crash. The exit is explicit for the first process of a container:
      // Linux withholds from it every signal that it has no handler for.
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
      // At a terminal nobody waits for load balancers to notice.
      running.close(signal === 'SIGTERM' ? env.shutdownDelayMs : 0).then(
        () => process.exit(0),
        (err) => {
          logger.error({ err }, 'did not stop cleanly');
          process.exit(1);
        },
      );
    };
    keepModules();
  } catch (error) {
    const { stack } = error as Error;
    process.stderr.write(`${startFailure(error as Error) ?? `The gateway could not start: ${stack}`}\n`);
    process.exit(1);
  }
}
