import { createLogger, type Logger } from '#shared/logger.ts';

/** For what has to be given a logger, and whose lines no test reads. */
export const silentLogger: Logger = createLogger({ level: 'silent', name: 'test' });
