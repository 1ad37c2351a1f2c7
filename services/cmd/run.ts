import { type Env, readEnv } from '#shared/env.ts';
import { createLogger, type Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';

type Running = { close(): Promise<void> };

/**
 * The life of a process: reads the environment, starts, and closes on SIGTERM or SIGINT; a second signal ends it at once.
 * What stops a start is told in one line, with exit code 1.
 */
export async function run(name: string, start: (env: Env, logger: Logger) => Promise<Running>): Promise<void> {
  let running: Running;
  try {
    const env = readEnv(process.env);
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
  } catch (error) {
    const text = error instanceof StartError ? error.message : `The gateway could not start: ${(error as Error).stack}`;
    process.stderr.write(`${text}\n`);
    process.exit(1);
  }
}
